//! Detection of model variables, which the runtime's C interface does not report.

use std::{fs::File, io::BufReader};

use quick_xml::{Reader, events::Event};

use super::repository::ModelFiles;

/// The operation that reads a variable in an OpenVINO IR.
const READS: &str = "ReadValue";

/// Returns whether a model file has variables; `None` if unknown, as for other formats than IR.
pub(super) fn exist(files: &ModelFiles) -> Option<bool> {
    let ModelFiles::Ir { graph, .. } = files else {
        return None;
    };
    let file = File::open(graph).ok()?;
    parse(BufReader::new(file))
}

fn parse(source: impl std::io::BufRead) -> Option<bool> {
    let mut reader = Reader::from_reader(source);
    let mut buffer = Vec::new();
    loop {
        buffer.clear();
        match reader.read_event_into(&mut buffer).ok()? {
            Event::Start(element) | Event::Empty(element) => {
                let kind = element.try_get_attribute("type").ok()?;
                if kind.is_some_and(|kind| kind.value.as_ref() == READS) {
                    return Some(true);
                }
            }
            Event::Eof => return Some(false),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn variables_are_found_by_the_operation_that_reads_them() {
        let model = |kind: &str| {
            format!(
                r#"<net name="ReadValue"><layers><layer id="0" type="Parameter"/>
                   <layer id="1" type="{kind}"><data/></layer></layers></net>"#
            )
        };
        assert_eq!(parse(model("ReadValue").as_bytes()), Some(true));
        assert_eq!(parse(model("Add").as_bytes()), Some(false));
        assert_eq!(parse(&b"<net><layers></net>"[..]), None, "it is broken");
    }
}
