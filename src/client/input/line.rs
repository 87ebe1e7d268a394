//! One request in a line of JSON: inputs, and what else a request has.
//!
//! A line is an object of inputs by name, or the value of one input. Beside the inputs stand
//! `timestamp`, `parameters`, `id` and, for loads, `weight`, unless the model has inputs of these names. `inputs` may hold
//! them as well, by name or as a list of `{"name", "datatype", "shape", "data"}`, which is how REST
//! requests have them.

use std::{borrow::Cow, collections::BTreeMap, path::Path};

use serde::Deserialize;
use serde_json::value::RawValue;

use super::{Argument, ElementSource, piped};
use crate::{
    client::{json, message::ModelMetadata},
    request::{Parameter, Parameters},
    tensor::DataType,
};

/// A line, taken apart.
#[derive(Debug, Default, PartialEq)]
pub struct RequestLine {
    /// The inputs, and their values as JSON.
    pub inputs: Vec<(Argument, String)>,
    /// The id of the request.
    pub id: Option<String>,
    /// The request parameters.
    pub parameters: Parameters,
    /// The timestamp of the request.
    pub timestamp: Option<i64>,
    /// Frequency of the request in a load, relative to the others.
    pub weight: Option<f64>,
    /// Allows values to name files.
    pub takes_files: bool,
}

/// Error of parsing a line as a request.
#[derive(Debug, thiserror::Error)]
pub enum LineProblem {
    /// Text that is no JSON.
    #[error("found no JSON")]
    Json(#[source] serde_json::Error),
    /// Something beside the inputs is of another kind.
    #[error("cannot use `{key}`")]
    Field {
        /// Key of the value.
        key: &'static str,
        /// Error of the JSON parser.
        source: serde_json::Error,
    },
    /// A parameter that requests have no form for.
    #[error(
        "found the parameter `{0}`, expected a truth value, a text or a number without a fraction"
    )]
    Parameter(String),
    /// A datatype that there is not.
    #[error("found the datatype `{datatype}` of input `{name}`")]
    Datatype {
        /// The name of the input.
        name: String,
        /// The datatype as found.
        datatype: String,
    },
}

type Raw<'a> = Cow<'a, RawValue>;

/// An input as REST requests have it.
#[derive(Debug, Deserialize)]
struct Listed {
    name: String,
    datatype: Option<String>,
    shape: Option<Vec<usize>>,
    data: Box<RawValue>,
}

impl RequestLine {
    /// Reads a line; `only` says what the value is of, if the line is no object of inputs.
    ///
    /// # Errors
    ///
    /// Fails if it is no request.
    pub fn read(text: &str, only: &Argument, model: &ModelMetadata) -> Result<Self, LineProblem> {
        let text = json::quote_not_finite(text);
        // An answer of another stream, or sequence: its outputs are inputs here.
        if let Some(head) = piped::head(&text).filter(|_| !model.has_input("outputs")) {
            return Ok(Self {
                inputs: vec![(only.clone(), text.trim().to_owned())],
                id: (!head.id.is_empty()).then_some(head.id),
                timestamp: head.timestamp,
                ..Self::default()
            });
        }
        if only.name.is_some() || !text.trim_start().starts_with('{') {
            serde_json::from_str::<serde::de::IgnoredAny>(&text).map_err(LineProblem::Json)?;
            return Ok(Self {
                inputs: vec![(only.clone(), text.trim().to_owned())],
                ..Self::default()
            });
        }
        let mut object: BTreeMap<String, Raw<'_>> =
            serde_json::from_str(&text).map_err(LineProblem::Json)?;
        let mut take = |key: &str| {
            (!model.has_input(key))
                .then(|| object.remove(key))
                .flatten()
        };
        let mut line = Self {
            id: field("id", take("id"))?,
            timestamp: field("timestamp", take("timestamp"))?,
            weight: field("weight", take("weight"))?,
            parameters: parameters(field("parameters", take("parameters"))?.unwrap_or_default())?,
            ..Self::default()
        };
        match take("inputs") {
            Some(inputs) if inputs.get().starts_with('[') => {
                let listed: Option<Vec<Listed>> = field("inputs", Some(inputs))?;
                for input in listed.unwrap_or_default() {
                    line.inputs.push(input.argument()?);
                }
            }
            Some(inputs) => {
                let inputs: Option<BTreeMap<String, Box<RawValue>>> =
                    field("inputs", Some(inputs))?;
                for (name, value) in inputs.unwrap_or_default() {
                    line.push(name, &value);
                }
            }
            None => {}
        }
        for (name, value) in object {
            line.push(name, &value);
        }
        Ok(line)
    }

    /// Takes each value that names a file as an argument does, `"@cat.png"`, for that file. Relative paths begin in a
    /// folder. A text of another form, or in a list, stays a text.
    pub fn take_files(&mut self, folder: &Path) {
        self.takes_files = true;
        for (argument, value) in &mut self.inputs {
            let text = value.trim_start();
            if !text.starts_with("\"@") {
                continue;
            }
            let source = serde_json::from_str::<String>(text).ok();
            let source = source.and_then(|text| text.parse().ok());
            if let Some(ElementSource::File { path, kind, output }) = source {
                argument.source = ElementSource::File {
                    path: folder.join(path),
                    kind,
                    output,
                };
            }
        }
    }

    fn push(&mut self, name: String, value: &RawValue) {
        let argument = Argument::of_lines(Some(name));
        self.inputs.push((argument, value.get().to_owned()));
    }
}

impl Listed {
    fn argument(self) -> Result<(Argument, String), LineProblem> {
        let dtype = |datatype: String| {
            DataType::from_kserve(&datatype).ok_or_else(|| LineProblem::Datatype {
                name: self.name.clone(),
                datatype,
            })
        };
        let argument = Argument {
            dtype: self.datatype.map(dtype).transpose()?,
            shape: self.shape,
            ..Argument::of_lines(Some(self.name))
        };
        Ok((argument, self.data.get().to_owned()))
    }
}

fn field<T: for<'de> Deserialize<'de>>(
    key: &'static str,
    value: Option<Raw<'_>>,
) -> Result<Option<T>, LineProblem> {
    let Some(value) = value else {
        return Ok(None);
    };
    let read = serde_json::from_str(value.get());
    read.map(Some)
        .map_err(|source| LineProblem::Field { key, source })
}

fn parameters(object: BTreeMap<String, serde_json::Value>) -> Result<Parameters, LineProblem> {
    use serde_json::Value;
    let parameter = |(key, value)| {
        let parameter = match value {
            Value::Bool(value) => Parameter::Bool(value),
            Value::String(text) => Parameter::Text(text),
            Value::Number(number) => match (number.as_i64(), number.as_u64()) {
                (Some(number), _) => Parameter::Int(number),
                (None, Some(number)) => Parameter::UInt(number),
                (None, None) => return Err(LineProblem::Parameter(key)),
            },
            _ => return Err(LineProblem::Parameter(key)),
        };
        Ok((key, parameter))
    };
    object.into_iter().map(parameter).collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{Argument, ElementSource, RequestLine};
    use crate::{
        client::message::{ModelMetadata, TensorMetadata},
        error::chain,
        request::Parameter,
        tensor::{DataType, PartialShape},
    };

    fn read(text: &str, inputs: &[&str]) -> Result<RequestLine, String> {
        let model = ModelMetadata {
            name: "m".to_owned(),
            versions: Vec::new(),
            platform: String::new(),
            properties: Default::default(),
            inputs: inputs
                .iter()
                .map(|name| TensorMetadata {
                    name: (*name).to_owned(),
                    datatype: String::new(),
                    shape: PartialShape(Vec::new()),
                })
                .collect(),
            outputs: Vec::new(),
        };
        let only = Argument::of_lines(None);
        RequestLine::read(text, &only, &model).map_err(|error| chain(&error))
    }

    /// Names and values, as far as they are given.
    fn inputs(line: &RequestLine) -> Vec<String> {
        let reported = |(argument, value): &(Argument, String)| {
            let dtype = argument.dtype.map_or(String::new(), |it| format!(" {it}"));
            let shape = argument.shape.as_ref();
            let shape = shape.map_or(String::new(), |it| format!(" {it:?}"));
            let name = argument.name.as_deref().unwrap_or("-");
            format!("{name}{dtype}{shape}={value}")
        };
        line.inputs.iter().map(reported).collect()
    }

    #[test]
    fn inputs_stand_by_name_in_a_list_or_alone() {
        for (text, expected) in [
            ("[1, 2]", &["-=[1, 2]"][..]),
            (" 5 ", &["-=5"]),
            (r#""text""#, &[r#"-="text""#]),
            (r#"{"a": [1], "b": "x"}"#, &["a=[1]", r#"b="x""#]),
            (r#"{"a": NaN}"#, &[r#"a="NaN""#]),
            (r#"{"inputs": {"a": 1}}"#, &["a=1"]),
            (
                r#"{"inputs": [{"name": "a", "datatype": "INT8", "shape": [1, 2], "data": [1, 2]}]}"#,
                &["a INT8 [1, 2]=[1, 2]"],
            ),
            ("{}", &[]),
        ] {
            assert_eq!(
                inputs(&read(text, &["a", "b"]).unwrap()),
                expected,
                "{text}"
            );
        }
    }

    #[test]
    fn what_stands_beside_the_inputs_belongs_to_the_request() {
        let text = r#"{"a": 1, "id": "i", "timestamp": -9223372036854775805,
            "parameters": {"b": true, "l": 18446744073709551615, "n": 7, "t": "x"}}"#;
        let line = read(text, &["a"]).unwrap();
        assert_eq!(inputs(&line), ["a=1"]);
        assert_eq!(line.id.as_deref(), Some("i"));
        assert_eq!(line.timestamp, Some(i64::MIN + 3));
        let expected = [
            ("b", Parameter::Bool(true)),
            ("l", Parameter::UInt(u64::MAX)),
            ("n", Parameter::Int(7)),
            ("t", Parameter::Text("x".to_owned())),
        ];
        assert_eq!(
            line.parameters,
            expected.map(|(key, it)| (key.to_owned(), it))
        );
        // Unless they are inputs.
        let line = read(r#"{"id": 1, "timestamp": 2}"#, &["id", "timestamp"]).unwrap();
        assert_eq!(inputs(&line), ["id=1", "timestamp=2"]);
        assert_eq!(line.timestamp, None);
    }

    #[test]
    fn values_that_name_files_are_those_files() {
        let text = r#"{"a": "@cat.png", "b": "@/b.npz:x", "inputs": [
            {"name": "c", "datatype": "INT8", "shape": [2], "data": "@c.npy"},
            {"name": "d", "data": "@ann: hello"}, {"name": "e", "data": ["@cat.png"]}]}"#;
        let mut line = read(text, &["a", "b", "c", "d", "e"]).unwrap();
        line.take_files(Path::new("mix"));
        let files = line.inputs.iter().map(|(argument, _)| {
            let name = argument.name.as_deref().unwrap_or("-");
            match &argument.source {
                ElementSource::File { path, output, .. } => {
                    format!("{name}={} {output:?}", path.display())
                }
                _ => format!("{name} as it is"),
            }
        });
        assert_eq!(
            files.collect::<Vec<_>>(),
            [
                "c=mix/c.npy None",
                "d as it is",
                "e as it is",
                "a=mix/cat.png None",
                "b=/b.npz Some(\"x\")",
            ]
        );
        // Datatype and shape of the line stay.
        let listed = &line.inputs[0].0;
        assert_eq!(
            (listed.dtype, &listed.shape),
            (Some(DataType::I8), &Some(vec![2]))
        );
        let mut alone = read("\"@cat.png\"", &["a"]).unwrap();
        alone.take_files(Path::new(""));
        let source = &alone.inputs[0].0.source;
        assert!(matches!(source, ElementSource::File { path, .. } if path == Path::new("cat.png")));
    }

    #[test]
    fn what_is_no_request_is_reported() {
        let error = |text| read(text, &["a"]).unwrap_err();
        insta::assert_snapshot!(error("{a}"), @"found no JSON: key must be a string at line 1 column 2");
        insta::assert_snapshot!(error("x"), @"found no JSON: expected value at line 1 column 1");
        insta::assert_snapshot!(error(r#"{"timestamp": "5"}"#), @r#"cannot use `timestamp`: invalid type: string "5", expected i64 at line 1 column 3"#);
        insta::assert_snapshot!(error(r#"{"parameters": {"x": 0.5}}"#), @"found the parameter `x`, expected a truth value, a text or a number without a fraction");
        insta::assert_snapshot!(error(r#"{"inputs": [{"name": "a", "datatype": "FP8", "data": 1}]}"#), @"found the datatype `FP8` of input `a`");
        insta::assert_snapshot!(error(r#"{"inputs": [{"data": 1}]}"#), @"cannot use `inputs`: missing field `name` at line 1 column 12");
    }
}
