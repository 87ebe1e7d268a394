//! `shape` and `batch_size`: their texts.

use serde_json::{Map, Value};

use crate::{
    openvino::{BatchOption, LayoutOption, PerTensor, ShapeOption},
    tensor::{Dim, Layout, LayoutError, PartialShape},
};

/// A text that is no shape.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "The provided shape is in wrong format - found `{0}`; expected auto, (d1,d2,…) with each d a \
     number, -1 or a range such as 1:8, or a JSON object of those by input name"
)]
pub struct ParseShapeError(pub String);

/// Reads one shape for whichever input there is, or a JSON object of shapes by input name. An
/// empty text sets nothing.
pub(super) fn parse(text: &str) -> Result<PerTensor<ShapeOption>, ParseShapeError> {
    per_tensor(text, parse_one, ParseShapeError)
}

/// Reads one shape.
pub(super) fn parse_one(text: &str) -> Result<ShapeOption, ParseShapeError> {
    let failure = || ParseShapeError(text.to_owned());
    let bare: String = text.chars().filter(|c| !c.is_whitespace()).collect();
    if bare == "auto" {
        return Ok(ShapeOption::Auto);
    }
    let dims = bare
        .strip_prefix('(')
        .and_then(|rest| rest.strip_suffix(')'))
        .ok_or_else(failure)?;
    let dims: Option<Vec<Dim>> = dims.split(',').map(dim).collect();
    dims.map(PartialShape)
        .map(ShapeOption::Dims)
        .ok_or_else(failure)
}

/// Reads a batch size: `Ok(None)` is that of the model, `Err` what is not one.
pub(super) fn parse_batch(text: &str) -> Result<Option<BatchOption>, ()> {
    let bare: String = text.chars().filter(|c| !c.is_whitespace()).collect();
    match bare.as_str() {
        "auto" => Ok(Some(BatchOption::Auto)),
        "" | "0" => Ok(None),
        text => match dim(text) {
            Some(Dim::Range(0, _)) | None => Err(()),
            Some(Dim::Fixed(0)) => Ok(None),
            Some(dim) => Ok(Some(BatchOption::Dim(dim))),
        },
    }
}

/// Returns the error text for an invalid batch size.
pub(super) fn bad_batch(text: &str) -> String {
    format!(
        "batch_size is ignored: found `{text}`; expected a number, -1, auto or a \
         range such as 1:8"
    )
}

/// Reads `5`, `-1` or `1:8`.
fn dim(text: &str) -> Option<Dim> {
    if text == "-1" {
        return Some(Dim::Any);
    }
    match text.split_once(':') {
        None => length(text).map(Dim::Fixed),
        Some((low, high)) => {
            let (low, high) = (length(low)?, length(high)?);
            (low < high).then_some(Dim::Range(low, high))
        }
    }
}

/// Reads a length: digits, within what 32 bits hold.
fn length(text: &str) -> Option<usize> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let number: i32 = digits.then(|| text.parse().ok())??;
    usize::try_from(number).ok()
}

/// Reads one option for whichever tensor there is, or a JSON object of options by name. An empty
/// text sets nothing. `error` makes the error of a text that is neither.
pub(super) fn per_tensor<T, E>(
    text: &str,
    one: impl Fn(&str) -> Result<T, E>,
    error: impl Fn(String) -> E,
) -> Result<PerTensor<T>, E> {
    if text.trim().is_empty() {
        return Ok(PerTensor::Unset);
    }
    if !text.trim_start().starts_with('{') {
        return one(text).map(PerTensor::Anonymous);
    }
    let object: Map<String, Value> =
        serde_json::from_str(text).map_err(|_| error(text.to_owned()))?;
    let options = object.into_iter().map(|(name, value)| match value {
        Value::String(option) => Ok((name, one(&option)?)),
        _ => Err(error(text.to_owned())),
    });
    options.collect::<Result<_, _>>().map(PerTensor::Named)
}

/// Reads one layout for whichever input there is, or a JSON object of layouts by the name of an
/// input or output. An empty text sets nothing.
pub(super) fn parse_layouts(text: &str) -> Result<PerTensor<LayoutOption>, LayoutError> {
    per_tensor(text, parse_layout, LayoutError)
}

/// Reads `L`, or `T:S`: requests have T, the model has S.
pub(super) fn parse_layout(text: &str) -> Result<LayoutOption, LayoutError> {
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
    use super::{ParseShapeError, parse, parse_batch, parse_layouts};
    use crate::openvino::{BatchOption, LayoutOption, PerTensor, ShapeOption};

    fn shown(option: &ShapeOption) -> String {
        match option {
            ShapeOption::Auto => "auto".to_owned(),
            ShapeOption::Dims(shape) => shape.to_string(),
        }
    }

    fn shape(text: &str) -> Result<String, ParseShapeError> {
        Ok(match parse(text)? {
            PerTensor::Unset => "unset".to_owned(),
            PerTensor::Anonymous(shape) => shown(&shape),
            PerTensor::Named(shapes) => shapes
                .iter()
                .map(|(name, shape)| format!("{name}={};", shown(shape)))
                .collect(),
        })
    }

    #[test]
    fn shapes_are_read() {
        for (text, expected) in [
            ("auto", "auto"),
            ("(1,3,224,224)", "(1,3,224,224)"),
            (" ( 1 , 3 ) ", "(1,3)"),
            ("(0)", "(0)"),
            ("(-1,1:8,0:2)", "(-1,[1~8],[0~2])"),
            ("(2147483647)", "(2147483647)"),
            ("", "unset"),
            (r#"{"a":"(1,2)","b":"auto"}"#, "a=(1,2);b=auto;"),
            ("{}", ""),
        ] {
            assert_eq!(shape(text).as_deref(), Ok(expected), "{text}");
        }
    }

    #[test]
    fn what_is_no_shape_is_refused() {
        for text in [
            "[1,2]",
            "?",
            "(?)",
            "(1.5)",
            "(5-)",
            "(--3)",
            "(-5)",
            "(:9)",
            "(9:)",
            "(9::3)",
            "(9:9)",
            "(9:3)",
            "(-1:3)",
            "(2147483648)",
            "(99999999999999999999)",
            "()",
            "(auto,2)",
            "(1,)",
            "(1",
            "1,2",
            "((1))",
            "(+1)",
            "(auto)",
            "Auto",
            r#"{"a":[1,2]}"#,
            r#"{"a":"(1"}"#,
            r#"{"a""#,
        ] {
            let error = shape(text).unwrap_err().to_string();
            assert!(
                error.starts_with("The provided shape is in wrong format - found `"),
                "{text}: {error}"
            );
        }
    }

    #[test]
    fn batch_sizes_are_read_and_nonsense_refused() {
        let shown = |text| {
            parse_batch(text).map(|batch| match batch {
                None => "the model's".to_owned(),
                Some(BatchOption::Auto) => "auto".to_owned(),
                Some(BatchOption::Dim(dim)) => dim.to_string(),
            })
        };
        for (text, expected) in [
            ("auto", "auto"),
            (" 4 ", "4"),
            ("-1", "-1"),
            ("1:8", "[1~8]"),
            ("0", "the model's"),
            ("00", "the model's"),
            ("", "the model's"),
        ] {
            assert_eq!(shown(text).as_deref(), Ok(expected), "{text}");
        }
        for text in [
            "-2",
            "0:8",
            "8:1",
            "4:4",
            "x",
            "1.5",
            "1:2:3",
            "(1)",
            "2147483648",
        ] {
            assert_eq!(shown(text), Err(()), "{text}");
        }
    }

    fn written(option: &LayoutOption) -> String {
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
            let read = match parse_layouts(text).unwrap() {
                PerTensor::Unset => "unset".to_owned(),
                PerTensor::Anonymous(layout) => written(&layout),
                PerTensor::Named(layouts) => layouts
                    .iter()
                    .map(|(name, layout)| format!("{name}={};", written(layout)))
                    .collect(),
            };
            assert_eq!(read, expected, "{text}");
        }
        assert_eq!(parse_layouts(" "), Ok(PerTensor::Unset));
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
            let error = parse_layouts(text).unwrap_err().to_string();
            assert!(
                error.starts_with("The provided layout is in wrong format - found `"),
                "{text}: {error}"
            );
        }
    }
}
