//! The layouts that an OpenVINO IR file gives for its tensors.
//!
//! The runtime's C interface does not tell them, so they are read from the file: an attribute
//! `layout` in the `rt_info` of the port that a tensor comes from.

use std::{
    collections::BTreeMap,
    fs::File,
    io::{BufRead, BufReader},
};

use quick_xml::{
    Reader, XmlVersion,
    events::{BytesStart, Event},
};

use super::repository::ModelFiles;
use crate::tensor::Layout;

/// Reads the layouts of an IR by the names of its tensors; other formats, and files that cannot be
/// read, have none.
#[must_use]
pub fn read(files: &ModelFiles) -> BTreeMap<String, Layout> {
    let mut layouts = BTreeMap::new();
    if let ModelFiles::Ir { graph, .. } = files
        && let Ok(file) = File::open(graph)
    {
        parse(BufReader::new(file), &mut layouts);
    }
    layouts
}

/// Reads until the end of the layers, or to where the file is no longer XML.
fn parse(source: impl BufRead, layouts: &mut BTreeMap<String, Layout>) -> Option<()> {
    let mut reader = Reader::from_reader(source);
    let mut buffer = Vec::new();
    // The names of the tensor of the port that the reader is in.
    let mut names = String::new();
    loop {
        buffer.clear();
        let element = match reader.read_event_into(&mut buffer).ok()? {
            Event::Start(element) | Event::Empty(element) => element,
            Event::End(element) if element.name().as_ref() == "layers" => return Some(()),
            Event::Eof => return Some(()),
            _ => continue,
        };
        match element.name().as_ref() {
            "port" => names = attribute(&element, "names").unwrap_or_default(),
            "attribute" if !names.is_empty() => {
                if attribute(&element, "name").as_deref() == Some("layout")
                    && let Some(layout) = attribute(&element, "layout").and_then(|text| tidy(&text))
                {
                    for name in split(&names) {
                        layouts.insert(name, layout.clone());
                    }
                }
            }
            _ => {}
        }
    }
}

fn attribute(element: &BytesStart<'_>, name: &str) -> Option<String> {
    let attribute = element.try_get_attribute(name).ok()??;
    let text = attribute.normalized_value(XmlVersion::Implicit1_0).ok()?;
    Some(text.into_owned())
}

/// Takes the names of a tensor apart: `a,b`, where a comma within a name is written `\,`.
fn split(names: &str) -> Vec<String> {
    let mut list = vec![String::new()];
    let mut characters = names.chars();
    while let Some(character) = characters.next() {
        match (character, list.last_mut()) {
            (',', _) => list.push(String::new()),
            ('\\', Some(name)) => name.extend(characters.next()),
            (character, Some(name)) => name.push(character),
            (_, None) => {}
        }
    }
    list
}

/// Returns a layout such as `[N,...,C]` as ours. Axes with names that ours do not have are axes
/// without a name here.
fn tidy(text: &str) -> Option<Layout> {
    let list = text.strip_prefix('[')?.strip_suffix(']')?;
    let axes: String = list
        .split(',')
        .map(|axis| match axis.trim() {
            known @ ("N" | "C" | "H" | "W" | "D" | "...") => known,
            _ => "?",
        })
        .collect();
    Layout::parse(&axes).ok()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::{parse, split, tidy};

    #[test]
    fn layouts_are_read_by_tensor_name() {
        let xml = r#"<net><layers><layer type="Parameter"><output>
            <port id="0" names="x,x:0"><dim>1</dim>
            <rt_info><attribute name="layout" version="0" layout="[N,H,W,C]"/></rt_info></port>
            <port id="1" names="y"><rt_info><attribute name="fused"/></rt_info></port>
            <port id="2"><rt_info><attribute name="layout" layout="[N,C]"/></rt_info></port>
            </output></layer></layers>
            <port names="z"><attribute name="layout" layout="[N,C]"/></port></net>"#;
        let mut layouts = BTreeMap::new();
        parse(xml.as_bytes(), &mut layouts);
        let texts: Vec<String> = layouts
            .iter()
            .map(|(name, layout)| format!("{name} {layout}"))
            .collect();
        assert_eq!(texts, ["x NHWC", "x:0 NHWC"]);
        parse(&b"<net><layers><port names='cut'"[..], &mut layouts);
        assert_eq!(layouts.len(), 2);
    }

    #[test]
    fn layouts_become_ours() {
        let text = |text| tidy(text).map(|layout| layout.to_string());
        assert_eq!(text("[N,...]").as_deref(), Some("N..."));
        assert_eq!(text("[batch,C,?]").as_deref(), Some("?C?"));
        assert_eq!(text("[...]").as_deref(), Some("..."));
        for wrong in ["", "NCHW", "[N,N]"] {
            assert_eq!(text(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn names_may_have_commas() {
        assert_eq!(split(r"a,b\,c,d\\"), ["a", "b,c", r"d\"]);
    }
}
