//! The formats that others read.

use quick_xml::{Reader, events::Event};

use super::shapes::{self, diagram};
use crate::draw::{Style, dot, html, mermaid, svg, text};

/// A pipeline of which each name is an attempt at something.
const HOSTILE: &str = r#"
    x"y
    <script>alert(1)</script> = a&b"]end: b < request.x"y, c < gone`$(x).z; a:"c", é
    > -->]]>\ < <script>alert(1)</script>."c"
"#;

/// Fails if a text is no XML; returns its texts and the values of its attributes.
fn parts(xml: &str) -> Vec<String> {
    let mut reader = Reader::from_str(xml);
    let mut parts = Vec::new();
    let mut open = Vec::new();
    loop {
        match reader.read_event().unwrap() {
            Event::Start(tag) => {
                open.push(tag.name().as_ref().to_owned());
                let attributes = tag.attributes().map(|attribute| attribute.unwrap());
                parts.extend(attributes.map(|it| it.value.into_owned()));
            }
            Event::End(tag) => assert_eq!(open.pop().unwrap(), tag.name().as_ref()),
            Event::Text(text) => parts.push(text.into_inner().into_owned()),
            Event::Eof => break,
            _ => {}
        }
    }
    assert!(open.is_empty());
    parts
}

#[test]
fn svg_is_xml_with_a_box_for_each_node() {
    for (name, diagram) in shapes::all() {
        let image = svg(&diagram);
        let parts = parts(&image);
        for node in &diagram.nodes {
            assert!(parts.contains(&node.name), "{name}: {}", node.name);
        }
        let edges = image.matches("class=\"edge\"").count();
        assert!(edges >= diagram.nodes.len() - 1, "{name}");
        // The name of the format is the only address.
        assert_eq!(image.matches("://").count(), 1, "{name}");
    }
}

#[test]
fn html_loads_nothing() {
    let diagrams: Vec<_> = shapes::all().into_iter().map(|it| it.1).collect();
    let page = html(&diagrams, "Pipelines of config.json");
    for loading in ["://", "<script src", "<link", "<img", "@import", "url("] {
        assert!(!page.contains(loading), "{loading}");
    }
    assert_eq!(page.matches("<svg").count(), diagrams.len());
    assert!(page.contains("recognise"));
}

#[test]
fn names_are_no_markup() {
    let diagram = diagram(HOSTILE);
    let (image, page) = (svg(&diagram), html(std::slice::from_ref(&diagram), "<b>"));
    parts(&image);
    for text in [&image, &page] {
        assert!(!text.contains("<script>alert"), "{text}");
        assert!(text.contains("&lt;script&gt;alert(1)&lt;/script&gt;"));
    }
    assert_eq!(page.matches("<script>").count(), 1);
    let chart = mermaid(&diagram);
    for line in chart.lines().skip(4) {
        assert!(line.matches('"').count() % 2 == 0, "{line}");
        assert!(!line.contains('<') || line.contains("<br/>"), "{line}");
    }
    insta::assert_snapshot!(dot(&diagram));
}

#[test]
fn names_are_no_directives_of_mermaid() {
    let mut diagram = diagram("a'b\n%%{init: = dummy: b < request.a'b; a\n> y < %%{init:.a");
    diagram.name = "%%{init: {'theme': 'dark'}}%%".to_owned();
    let chart = mermaid(&diagram);
    let (named, _) = chart.split_once("  classDef").unwrap();
    assert!(!named.contains('%'), "{chart}");
    insta::assert_snapshot!(named, @r##"
    ---
    title: "\x25\x25{init: {'theme': 'dark'}}\x25\x25"
    ---
    flowchart TD
      n0(["request"])
      n1["#37;#37;#123;init:<br/>model dummy"]:::model
      n2(["response"])
      n0 -->|"a#39;b → b<br/>FP32 (1,10)"| n1
      n1 -->|"a → y<br/>FP32 (1,10)"| n2
    "##);
}

#[test]
fn what_a_terminal_cannot_show_is_written_out() {
    let diagram = diagram("größe\nn = dummy: b < request.größe; a\n> y\u{7} < n.a");
    let style = Style {
        ascii: true,
        ..Style::default()
    };
    let image = text(&diagram, style);
    assert!(image.is_ascii(), "{image}");
    assert!(image.contains(r"gr\u{f6}\u{df}e > b"), "{image}");
    let style = Style {
        colour: true,
        ..Style::default()
    };
    let image = text(&diagram, style);
    assert!(image.contains("größe → b") && !image.contains('\u{7}'));
    assert!(image.contains("\u{1b}[1mrequest\u{1b}[0m"), "{image:?}");
}

#[test]
fn every_format_shows_what_cannot_run() {
    let diagram = diagram(shapes::MISSING);
    let reported = [
        "no such model",
        "no such version",
        "not available",
        "no such library",
        "does not open",
    ];
    let page = html(std::slice::from_ref(&diagram), "Pipelines");
    let marks = [
        (svg(&diagram), "class=\"node ghost\""),
        (page.clone(), "class=\"node ghost\""),
        (dot(&diagram), "style=\"rounded,dashed\", color=red"),
        (mermaid(&diagram), ":::ghost"),
    ];
    for (text, mark) in &marks {
        for reported in reported {
            assert!(text.contains(reported), "{reported}\n{text}");
        }
        assert_eq!(text.matches(mark).count(), reported.len(), "{text}");
    }
    assert!(page.contains("the library `broken` does not open: it is &lt;no&gt; library"));

    let image = serde_json::to_value(&diagram).unwrap();
    let nodes = image["nodes"].as_array().unwrap().iter();
    let missing: Vec<String> = nodes
        .map(|node| format!("{}: {}", node["name"], node["missing"]))
        .collect();
    insta::assert_snapshot!(missing.join("\n"), @r#"
    "request": null
    "a": "there is no model `dumy`"
    "b": "the model `dummy` has no version 7"
    "c": "the model `loading` is not available: LOADING"
    "d": "there is no library `gone`"
    "e": "the library `broken` does not open: it is <no> library"
    "f": null
    "response": null
    "#);
}

#[test]
fn a_graph_for_graphviz() {
    insta::assert_snapshot!(dot(&diagram(shapes::GATHERED_BY_NODE)));
}

#[test]
fn a_chart_for_mermaid() {
    insta::assert_snapshot!(mermaid(&diagram(shapes::GATHERED_BY_NODE)));
}

#[test]
fn a_pipeline_for_programs() {
    let diagram = diagram(shapes::GATHERED_BY_NODE);
    insta::assert_snapshot!(serde_json::to_string_pretty(&diagram).unwrap());
}
