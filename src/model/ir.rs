//! Contents of an OpenVINO IR file that the runtime's C interface does not report.

use std::{
    collections::BTreeMap,
    fs::File,
    io::{BufRead, BufReader},
};

use quick_xml::{Reader, events::Event};

use super::repository::ModelFiles;
use crate::{openvino::xml_attribute as attribute, tensor::Layout};

/// Maximum depth of elements. The runtime writes about ten; every one more costs time for each that follows, and
/// the tree of notes is as deep.
const MAX_DEPTH: usize = 64;

/// The operation that reads a variable.
const READS: &str = "ReadValue";

/// Contents of an IR file. Other formats, and files that cannot be read, have none: the runtime says
/// more of those.
#[derive(Debug, Default)]
pub struct IrFacts {
    /// The layouts of tensors by their names: an attribute `layout` in the `rt_info` of the port that
    /// a tensor comes from.
    pub layouts: BTreeMap<String, Layout>,
    /// Notes of its author about labels, scaling, and the like, in `net/rt_info/model_info`.
    /// Metadata calls over REST show it.
    pub rt_info: Option<RtInfo>,
    /// Presence of variables in the model; `None` if unknown.
    pub(super) has_variables: Option<bool>,
}

/// A tree of names and texts.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
#[serde(untagged)]
pub enum RtInfo {
    /// A text.
    Text(String),
    /// More names.
    Tree(BTreeMap<String, Self>),
}

impl IrFacts {
    /// Reads the file of a model.
    pub fn read(files: &ModelFiles) -> Self {
        let file = files.ir().and_then(|graph| File::open(graph).ok());
        file.map_or_else(Self::default, |file| Self::parse(BufReader::new(file)))
    }

    pub(super) fn parse(source: impl BufRead) -> Self {
        let mut facts = Self::default();
        let is_whole = facts.read_elements(source).is_some();
        facts.rt_info = facts.rt_info.filter(|_| is_whole);
        facts.has_variables = facts.has_variables.or(is_whole.then_some(false));
        facts
    }

    /// Reads until the end, or to where the file is no longer XML, or too deep.
    fn read_elements(&mut self, source: impl BufRead) -> Option<()> {
        let mut reader = Reader::from_reader(source);
        let mut buffer = Vec::new();
        let mut path: Vec<String> = Vec::new();
        // The names of the tensor of the port that the reader is in.
        let mut names = String::new();
        let mut layers_over = false;
        loop {
            buffer.clear();
            let (element, has_children) = match reader.read_event_into(&mut buffer).ok()? {
                Event::Start(element) => (element, true),
                Event::Empty(element) => (element, false),
                Event::End(element) => {
                    layers_over |= element.name().as_ref() == "layers";
                    path.pop();
                    continue;
                }
                Event::Eof => return Some(()),
                _ => continue,
            };
            if path.len() >= MAX_DEPTH {
                return None;
            }
            path.push(element.name().as_ref().to_owned());
            let places: Vec<&str> = path.iter().map(String::as_str).collect();
            match places[..] {
                ["net", "rt_info", "model_info", ref names @ ..] => {
                    let tree = || RtInfo::Tree(BTreeMap::new());
                    let tree = self.rt_info.get_or_insert_with(tree);
                    if let Some(value) = attribute(&element, "value") {
                        tree.insert(names, value);
                    }
                }
                [.., "layer"] if attribute(&element, "type").as_deref() == Some(READS) => {
                    self.has_variables = Some(true);
                }
                [.., "port"] => names = attribute(&element, "names").unwrap_or_default(),
                [.., "attribute"] if !layers_over && !names.is_empty() => {
                    if attribute(&element, "name").as_deref() == Some("layout")
                        && let Some(layout) = attribute(&element, "layout")
                        && let Some(layout) = tidy(&layout)
                    {
                        let names = split(&names).into_iter();
                        self.layouts
                            .extend(names.map(|name| (name, layout.clone())));
                    }
                }
                _ => {}
            }
            if !has_children {
                path.pop();
            }
        }
    }
}

impl RtInfo {
    fn insert(&mut self, names: &[&str], value: String) {
        if let ([first, rest @ ..], Self::Tree(tree)) = (names, self) {
            if rest.is_empty() {
                tree.insert((*first).to_owned(), Self::Text(value));
            } else {
                tree.entry((*first).to_owned())
                    .or_insert_with(|| Self::Tree(BTreeMap::new()))
                    .insert(rest, value);
            }
        }
    }
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
    use super::{IrFacts, RtInfo, split, tidy};

    fn rt_info(xml: &str) -> Option<RtInfo> {
        IrFacts::parse(xml.as_bytes()).rt_info
    }

    #[test]
    fn the_tree_of_model_info_is_read_and_the_rest_passed_over() {
        let xml = r#"<net name="m"><layers><rt_info><attribute name="x"/></rt_info></layers>
            <rt_info><Runtime_version value="1"/>
            <model_info><labels value="a &amp; b"/><scale><r value="2.5"/></scale></model_info>
            </rt_info></net>"#;
        let info = rt_info(xml).unwrap();
        assert_eq!(
            serde_json::to_string(&info).unwrap(),
            r#"{"labels":"a & b","scale":{"r":"2.5"}}"#
        );
        assert_eq!(rt_info("<net><rt_info/></net>"), None);
        assert_eq!(rt_info("<net><rt_info><model_info></net>"), None);
    }

    #[test]
    fn elements_without_end_are_passed_over() {
        let deep = "<a>".repeat(200_000);
        let xml = format!("<net><rt_info><model_info>{deep}");
        let started = std::time::Instant::now();
        assert_eq!(rt_info(&xml), None);
        assert!(started.elapsed() < std::time::Duration::from_secs(5));
    }

    #[test]
    fn variables_are_found_by_the_operation_that_reads_them() {
        let variables = |xml: &str| IrFacts::parse(xml.as_bytes()).has_variables;
        let model = |kind: &str| {
            format!(
                r#"<net name="ReadValue"><layers><layer id="0" type="Parameter"/>
                   <layer id="1" type="{kind}"><data/></layer></layers></net>"#
            )
        };
        assert_eq!(variables(&model("ReadValue")), Some(true));
        assert_eq!(variables(&model("Add")), Some(false));
        assert_eq!(variables("<net><layers></net>"), None, "it is broken");
    }

    #[test]
    fn layouts_are_read_by_tensor_name() {
        let xml = r#"<net><layers><layer type="Parameter"><output>
            <port id="0" names="x,x:0"><dim>1</dim>
            <rt_info><attribute name="layout" version="0" layout="[N,H,W,C]"/></rt_info></port>
            <port id="1" names="y"><rt_info><attribute name="fused"/></rt_info></port>
            <port id="2"><rt_info><attribute name="layout" layout="[N,C]"/></rt_info></port>
            </output></layer></layers>
            <port names="z"><attribute name="layout" layout="[N,C]"/></port></net>"#;
        let layouts = IrFacts::parse(xml.as_bytes()).layouts;
        let texts: Vec<String> = layouts
            .iter()
            .map(|(name, layout)| format!("{name} {layout}"))
            .collect();
        assert_eq!(texts, ["x NHWC", "x:0 NHWC"]);
        let cut = &xml[..xml.find("</layers>").unwrap()];
        assert_eq!(IrFacts::parse(cut.as_bytes()).layouts, layouts);
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
