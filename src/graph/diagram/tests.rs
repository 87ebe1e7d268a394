//! Diagrams of graphs, sound and not.

use super::diagram;
use crate::{
    draw::{Diagram, Style, dot, html, mermaid, svg, text},
    graph::file::GraphSpec,
};

/// A generator behind a node, with a model's session that nobody uses, and a stream of nobody.
const TEXT: &str = r#"
input_stream: "OVMS_PY_TENSOR:prompt"
output_stream: "OVMS_PY_TENSOR:token"
node {
  name: "tokenizer"
  calculator: "PythonExecutorCalculator"
  input_side_packet: "PYTHON_NODE_RESOURCES:py"
  input_side_packet: "LANGUAGE:language"
  input_stream: "IN:prompt"
  input_stream: "MORE:nobody"
  output_stream: "OUT:words"
  node_options: { [type.googleapis.com/mediapipe.PythonExecutorCalculatorOptions]: { handler_path: "größe.py" } }
}
node {
  name: "session"
  calculator: "OpenVINOModelServerSessionCalculator"
  output_side_packet: "SESSION:session"
  node_options: { [type.googleapis.com/mediapipe.OpenVINOModelServerSessionCalculatorOptions]: { servable_name: "m" } }
}
node {
  name: "writer"
  calculator: "PythonExecutorCalculator"
  input_side_packet: "PYTHON_NODE_RESOURCES:py"
  input_stream: "WORDS:words"
  input_stream: "LOOPBACK:loopback"
  input_stream_info: { tag_index: "LOOPBACK:0" back_edge: true }
  input_stream_handler { input_stream_handler: "SyncSetInputStreamHandler" }
  output_stream: "LOOPBACK:loopback"
  output_stream: "TOKEN:token"
  node_options: { [type.googleapis.com/mediapipe.PythonExecutorCalculatorOptions]: { handler_path: "w.py" } }
}
node { calculator: "NoCalculator" input_stream: "token" input_side_packet: "SESSION:session" }
"#;

fn drawn() -> Diagram {
    let is_there = |path: &str| path != "w.py";
    let spec = GraphSpec::read(TEXT, "g.pbtxt").unwrap();
    diagram("g", &spec, &is_there)
}

#[test]
fn a_graph_is_drawn_for_a_terminal() {
    insta::assert_snapshot!(text(&drawn(), Style::default()));
    let ascii = Style {
        ascii: true,
        ..Style::default()
    };
    let image = text(&drawn(), ascii);
    assert!(image.is_ascii(), "{image}");
    assert!(image.lines().all(|line| line.len() <= 80), "{image}");
}

#[test]
fn other_formats_have_arrows_for_what_goes_back() {
    insta::assert_snapshot!(dot(&drawn()));
    insta::assert_snapshot!(mermaid(&drawn()));
}

#[test]
fn programs_get_every_edge() {
    insta::assert_snapshot!(serde_json::to_string_pretty(&&drawn()).unwrap());
}

#[test]
fn images_dash_side_packets_and_pages_have_tables() {
    let image = svg(&drawn());
    assert!(image.contains("class=\"edge side\""), "{image}");
    assert!(image.contains("aria-label=\"Graph g\""), "{image}");
    let page = html(&[drawn()], "Graphs of <x>");
    assert!(page.contains("Graphs of &lt;x&gt;"), "{page}");
    assert!(page.contains("<td>stream, back edge</td>"), "{page}");
    assert!(page.contains("<td>(nobody)</td>"), "{page}");
}
