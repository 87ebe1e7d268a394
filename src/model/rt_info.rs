//! The `model_info` of an OpenVINO IR file: what its author wrote down about labels, scaling and
//! the like. Metadata calls over REST show it.

use std::{collections::BTreeMap, fs::File, io::BufReader};

use quick_xml::{
    Reader, XmlVersion,
    events::{BytesStart, Event},
};

use super::repository::ModelFiles;

/// A tree of names and texts.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
#[serde(untagged)]
pub enum RtInfo {
    /// A text.
    Text(String),
    /// More names.
    Tree(BTreeMap<String, Self>),
}

/// Reads `net/rt_info/model_info` of an IR; `None` if there is none. A file that cannot be read
/// has none: the runtime has loaded the model, and this is an ornament.
#[must_use]
pub fn read(files: &ModelFiles) -> Option<RtInfo> {
    let ModelFiles::Ir { graph, .. } = files else {
        return None;
    };
    let file = File::open(graph).ok()?;
    parse(BufReader::new(file))
}

fn parse(source: impl std::io::BufRead) -> Option<RtInfo> {
    let mut reader = Reader::from_reader(source);
    let mut path: Vec<String> = Vec::new();
    let mut buffer = Vec::new();
    let mut tree = BTreeMap::new();
    let mut found = false;
    loop {
        buffer.clear();
        let (element, has_children) = match reader.read_event_into(&mut buffer).ok()? {
            Event::Start(element) => (element, true),
            Event::Empty(element) => (element, false),
            Event::End(_) => {
                path.pop();
                continue;
            }
            Event::Eof => break,
            _ => continue,
        };
        path.push(element.name().as_ref().to_owned());
        if let ["net", "rt_info", "model_info", names @ ..] = path
            .iter()
            .map(String::as_str)
            .collect::<Vec<_>>()
            .as_slice()
        {
            found = true;
            if let Some(value) = value(&element) {
                insert(&mut tree, names, value);
            }
        }
        if !has_children {
            path.pop();
        }
    }
    found.then_some(RtInfo::Tree(tree))
}

fn value(element: &BytesStart<'_>) -> Option<String> {
    let attribute = element.try_get_attribute("value").ok()??;
    let text = attribute.normalized_value(XmlVersion::Implicit1_0).ok()?;
    Some(text.into_owned())
}

fn insert(tree: &mut BTreeMap<String, RtInfo>, names: &[&str], value: String) {
    let [first, rest @ ..] = names else {
        return;
    };
    if rest.is_empty() {
        tree.insert((*first).to_owned(), RtInfo::Text(value));
        return;
    }
    let below = tree
        .entry((*first).to_owned())
        .or_insert_with(|| RtInfo::Tree(BTreeMap::new()));
    if let RtInfo::Tree(below) = below {
        insert(below, rest, value);
    }
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn the_tree_of_model_info_is_read_and_the_rest_passed_over() {
        let xml = r#"<net name="m"><layers><rt_info><attribute name="x"/></rt_info></layers>
            <rt_info><Runtime_version value="1"/>
            <model_info><labels value="a &amp; b"/><scale><r value="2.5"/></scale></model_info>
            </rt_info></net>"#;
        let info = parse(xml.as_bytes()).unwrap();
        assert_eq!(
            serde_json::to_string(&info).unwrap(),
            r#"{"labels":"a & b","scale":{"r":"2.5"}}"#
        );
        assert_eq!(parse(&b"<net><rt_info/></net>"[..]), None);
        assert_eq!(parse(&b"<net><rt_info>"[..]), None);
    }
}
