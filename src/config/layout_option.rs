//! `layout`: its text.

use super::per_tensor;
use crate::{
    openvino::{LayoutOption, PerTensor},
    tensor::{Layout, LayoutError},
};

/// Reads one layout for whichever input there is, or a JSON object of layouts by the name of an
/// input or output. An empty text sets nothing.
pub(super) fn parse(text: &str) -> Result<PerTensor<LayoutOption>, LayoutError> {
    per_tensor::parse(text, parse_one, LayoutError)
}

/// Reads `L`, or `T:S`: requests have T, the model has S.
pub(super) fn parse_one(text: &str) -> Result<LayoutOption, LayoutError> {
    let read = |part: &str| Layout::parse(part).map_err(|_| LayoutError(text.to_owned()));
    let (tensor, model) = match text.split_once(':') {
        None => (read(text)?, None),
        Some((tensor, model)) => (read(tensor)?, Some(read(model)?)),
    };
    let model = model.filter(|model| *model != tensor);
    Ok(LayoutOption { tensor, model })
}

#[cfg(test)]
mod tests {
    use super::parse;
    use crate::openvino::{LayoutOption, PerTensor};

    fn shown(option: &LayoutOption) -> String {
        match &option.model {
            Some(model) => format!("{} from {model}", option.tensor),
            None => option.tensor.to_string(),
        }
    }

    #[test]
    fn layouts_are_read() {
        for (text, expected) in [
            ("nhwc", "NHWC"),
            ("NHWC:NCHW", "NHWC from NCHW"),
            (" N ? ... : n ... c ", "N?... from N...C"),
            ("NHWC:nhwc", "NHWC"),
            (
                r#"{"in":"NHWC:NCHW","out":"CN"}"#,
                "in=NHWC from NCHW;out=CN;",
            ),
        ] {
            let read = match parse(text).unwrap() {
                PerTensor::Unset => "unset".to_owned(),
                PerTensor::Anonymous(layout) => shown(&layout),
                PerTensor::Named(layouts) => layouts
                    .iter()
                    .map(|(name, layout)| format!("{name}={};", shown(layout)))
                    .collect(),
            };
            assert_eq!(read, expected, "{text}");
        }
        assert_eq!(parse(" "), Ok(PerTensor::Unset));
    }

    #[test]
    fn what_is_no_layout_is_refused() {
        for text in [
            "NN",
            "NXC",
            ":",
            "NC:",
            ":NC",
            "NC:CN:NC",
            "N......",
            "[NC]",
            r#"{"a":1}"#,
            r#"{"a":"X"}"#,
            "{",
        ] {
            let error = parse(text).unwrap_err().to_string();
            assert!(
                error.starts_with("The provided layout is in wrong format - found `"),
                "{text}: {error}"
            );
        }
    }
}
