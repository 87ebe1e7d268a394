//! Each rule with a pipeline that breaks it, and what a sound one becomes.

mod convert;
mod messages;
mod metadata;
mod open;
mod order;
mod rules;
mod unknown;

use std::path::Path;

use crate::{
    config::{Defaults, NodeConfig, PipelineConfig, parse},
    custom_node::NodeError,
    diagnostic::Diagnostics,
    pipeline::{
        CheckedPipeline, CustomError, CustomFacts, MissingModel, ModelFacts, Sources, TensorSource,
        check,
    },
    servable::{ServableInfo, TensorInfo},
    tensor::{DataType, Dim, Layout, PartialShape},
};

/// Writes a tensor as `name:FP32:1,-1,2-5`, with the layout behind another colon if there is one.
fn tensor(text: &str) -> TensorSource {
    let mut parts = text.split(':');
    let mut part = || parts.next().unwrap_or_default();
    let (name, dtype, shape, layout) = (part(), part(), part(), part());
    let dim = |text: &str| match text.split_once('-') {
        Some(("", "1")) => Dim::Any,
        Some((low, high)) => Dim::Range(low.parse().unwrap(), high.parse().unwrap()),
        None => Dim::Fixed(text.parse().unwrap()),
    };
    let dims: Vec<Dim> = shape
        .split(',')
        .filter(|dim| !dim.is_empty())
        .map(dim)
        .collect();
    TensorSource {
        name: name.to_owned(),
        dtype: DataType::ALL
            .into_iter()
            .find(|known| known.precision() == dtype),
        layout: Layout::parse(layout).unwrap_or_else(|_| Layout::unspecified(dims.len())),
        shape: PartialShape(dims),
    }
}

fn tensors(text: &str) -> Vec<TensorSource> {
    text.split_whitespace().map(tensor).collect()
}

fn infos(text: &str) -> Vec<TensorInfo> {
    let tensors = tensors(text).into_iter().enumerate();
    let info = |(port, tensor): (usize, TensorSource)| TensorInfo {
        name: tensor.name,
        dtype: tensor.dtype.unwrap(),
        shape: tensor.shape,
        layout: tensor.layout,
        is_open: false,
        port,
    };
    tensors.map(info).collect()
}

/// Inputs and outputs of the models and libraries of the tests; one row for each.
const KNOWN: [(&str, &str, &str); 26] = [
    ("dummy", "b:FP32:1,10", "a:FP32:1,10"),
    ("auto", "b:FP32:1,10", "a:FP32:1,10"),
    ("stateful", "b:FP32:1,10", "a:FP32:1,10"),
    ("two", "x:FP32:1,10 y:FP32:1,10", "z:FP32:1,10"),
    ("wide", "b:FP32:1,20", "a:FP32:1,20"),
    ("ints", "b:I32:1,10", "a:I32:1,10"),
    ("text", "b:STRING:-1", "a:STRING:-1"),
    ("text2", "b:STRING:-1,2", "a:STRING:-1,2"),
    ("flat", "b:FP32:1,10", "a:FP32:10"),
    ("four", "b:FP32:1,10", "a:FP32:4,1,10"),
    ("any", "b:FP32:1,10", "a:FP32:-1,1,10"),
    ("upto", "b:FP32:1,10", "a:FP32:1-3,1,10"),
    ("range", "b:FP32:1,5-20", "a:FP32:1,5-20"),
    ("gather4", "b:FP32:4,1,10", "a:FP32:1,10"),
    ("gather3", "b:FP32:3,1,10", "a:FP32:1,10"),
    ("gather", "b:FP32:-1,1,10", "a:FP32:1,10"),
    ("batch2", "b:FP32:2,5:NC", "a:FP32:2,5:NC"),
    ("nchw", "b:FP32:1,3,4,4:NCHW", "a:FP32:1,3,4,4:NCHW"),
    ("nhwc", "b:FP32:1,3,4,4:NHWC", "a:FP32:1,3,4,4:NHWC"),
    ("image", "b:U8:1,4,4,3:NHWC", "a:U8:1,4,4,3:NHWC"),
    ("three", "b:FP32:1,10", "a:FP32:3,1,10"),
    ("nested", "b:FP32:1,10", "a:FP32:4,3,1,10"),
    ("open", "b::1,10", "a::7,1,10 zz::-1,1,10"),
    ("rows", "b:FP32:-1,10", "a:FP32:-1,10"),
    ("rows8", "b:FP32:1-8,10", "a:FP32:1-8,10"),
    ("sum", "x:FP32:-1,10 y:FP32:-1,10", "z:FP32:-1,10"),
];

/// The models and libraries of the tests. Libraries have the same names as models; those that
/// begin with `bad` fail.
struct Known;

impl Known {
    fn find(name: &str) -> Option<(&'static str, &'static str)> {
        let mut known = KNOWN.iter();
        known.find(|row| row.0 == name).map(|row| (row.1, row.2))
    }

    fn names() -> Vec<String> {
        KNOWN.iter().map(|row| row.0.to_owned()).collect()
    }
}

impl Sources for Known {
    fn name_taken(&self, name: &str) -> bool {
        name == "dummy"
    }

    fn model(&self, name: &str, version: Option<i64>) -> Result<ModelFacts, MissingModel> {
        if name == "loading" {
            return Err(MissingModel::NotAvailable("LOADING".to_owned()));
        }
        if name.starts_with("far") {
            return Err(MissingModel::NotLooked {
                reason: "it is far away".to_owned(),
                stateful: name == "far_stateful",
                auto: name == "far_auto",
            });
        }
        let (inputs, outputs) =
            Self::find(name).ok_or_else(|| MissingModel::Unknown(Self::names()))?;
        if version.is_some_and(|version| version > 2) {
            return Err(MissingModel::Version(vec![1, 2]));
        }
        Ok(ModelFacts {
            info: ServableInfo::new(infos(inputs), infos(outputs)),
            stateful: name == "stateful",
            auto: name == "auto",
        })
    }

    fn custom(&self, _node: &NodeConfig, library: &str) -> Result<CustomFacts, CustomError> {
        let name = library;
        let library = name.to_owned();
        match name {
            "bad_init" => Err(NodeError::Call {
                library,
                function: "initialize",
                code: 7,
            }
            .into()),
            "bad_call" => Err(NodeError::Call {
                library,
                function: "getInputsInfo",
                code: 1,
            }
            .into()),
            "bad_handle" => Err(NodeError::NoArray {
                library,
                function: "getOutputsInfo",
            }
            .into()),
            "bad_count" => Err(NodeError::Count {
                library,
                function: "getOutputsInfo",
                count: 0,
            }
            .into()),
            "bad_open" => Err(CustomError::NotOpen("no such file".to_owned())),
            "bad_param" => Err(NodeError::Parameter {
                library,
                key: "key".to_owned(),
            }
            .into()),
            "far" => Err(CustomError::NotLooked("nobody may run it".to_owned())),
            "bad_handler" => Err(CustomError::Handler {
                reason: "ValueError: no".to_owned(),
                advice: "correct the handler; the log has where it was raised",
                raised: None,
            }),
            "python" => Ok(CustomFacts {
                is_open: true,
                ..CustomFacts::default()
            }),
            _ => {
                let found = Self::find(name);
                let (inputs, outputs) = found.ok_or_else(|| CustomError::Library(Self::names()))?;
                Ok(CustomFacts {
                    inputs: tensors(inputs),
                    outputs: tensors(outputs),
                    is_open: false,
                })
            }
        }
    }
}

/// Reads a pipeline `p` from a short form, through the configuration file's.
///
/// A line is a node: `name = model(input < source.item, …) -> alias, alias:real; split 4; gather x`.
/// An alias alone stands for the output of that name. `@library` instead of a model makes a custom
/// node, `model/2` is a version. `out` in front of a line stands for an output of the pipeline:
/// `out label < source.item`; ` convert` behind an input's source converts. `in a, b` names the inputs, `split -1` splits the request, and
/// `empty allow` is what comes of nothing.
fn pipeline(text: &str) -> PipelineConfig {
    let json = json(text);
    let parsed = parse(
        json.as_bytes(),
        Path::new("/config.json"),
        &Defaults::default(),
    );
    parsed.unwrap().pipelines.remove(0)
}

fn json(text: &str) -> String {
    let (mut inputs, mut nodes, mut outputs) = (Vec::new(), Vec::new(), Vec::new());
    let (mut name, mut settings) = ("p".to_owned(), Vec::new());
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        if let Some(list) = line.strip_prefix("in ") {
            inputs = list
                .split(',')
                .map(|input| format!("{:?}", input.trim()))
                .collect();
        } else if let Some(output) = line.strip_prefix("out ") {
            outputs.push(connection(output));
        } else if let Some(count) = line.strip_prefix("split ") {
            settings.push(format!(r#", "demultiply_count": {count}"#));
        } else if let Some(value) = line.strip_prefix("empty ") {
            settings.push(format!(r#", "empty_results": "{value}""#));
        } else if let Some(given) = line.strip_prefix("name ") {
            given.clone_into(&mut name);
        } else {
            nodes.push(node(line));
        }
    }
    format!(
        "{{\"model_config_list\": [], \"pipeline_config_list\": [{{\n\"name\": \"{name}\", \
         \"inputs\": [{}]{},\n\"nodes\": [\n{}],\n\"outputs\": [{}]}}]}}",
        inputs.join(", "),
        settings.concat(),
        nodes.join(",\n"),
        outputs.join(", ")
    )
}

fn connection(text: &str) -> String {
    let (name, source) = text.split_once('<').unwrap();
    let (node, item) = source.trim().split_once('.').unwrap();
    let name = name.trim();
    let (item, convert) = match item.split_once(" convert") {
        Some((item, _)) => (item, r#", "convert": true"#),
        None => (item, ""),
    };
    format!(r#"{{"{name}": {{"node_name": "{node}", "data_item": "{item}"{convert}}}}}"#)
}

fn node(line: &str) -> String {
    let (name, rest) = line.split_once('=').unwrap();
    let (runs, rest) = rest.trim().split_once('(').unwrap();
    let (inputs, rest) = rest.split_once(')').unwrap();
    let mut settings = rest
        .trim()
        .trim_start_matches("->")
        .split(';')
        .map(str::trim);
    let aliases = settings.next().unwrap_or_default();
    let outputs = aliases
        .split(',')
        .map(str::trim)
        .filter(|alias| !alias.is_empty());
    let outputs = outputs.map(|alias| {
        let (alias, real) = alias.split_once(':').unwrap_or((alias, alias));
        format!(r#"{{"data_item": "{real}", "alias": "{alias}"}}"#)
    });
    let outputs: Vec<String> = outputs.collect();
    let inputs = inputs.split(',').filter(|input| !input.trim().is_empty());
    let inputs: Vec<String> = inputs.map(connection).collect();
    let runs = match (runs.strip_prefix('@'), runs.split_once('/')) {
        (Some(library), _) => format!(r#""type": "custom", "library_name": "{library}""#),
        (None, Some((model, version))) => {
            format!(r#""type": "DL model", "model_name": "{model}", "version": {version}"#)
        }
        (None, None) => format!(r#""type": "DL model", "model_name": "{runs}""#),
    };
    let settings = settings.map(|setting| match setting.split_once(' ') {
        Some(("split", count)) => format!(r#", "demultiply_count": {count}"#),
        Some(("gather", from)) => format!(r#", "gather_from_node": "{from}""#),
        _ => panic!("{setting}"),
    });
    format!(
        "{{\"name\": \"{}\", {runs}{},\n \"inputs\": [{}],\n \"outputs\": [{}]}}",
        name.trim(),
        settings.collect::<String>(),
        inputs.join(", "),
        outputs.join(", ")
    )
}

fn validate(text: &str) -> Result<CheckedPipeline, Diagnostics> {
    check(&pipeline(text), &Known)
}

fn sound(text: &str) -> CheckedPipeline {
    validate(text).unwrap_or_else(|errors| panic!("{errors}\n{text}"))
}

/// Returns the texts of the warnings of a pipeline without errors.
fn warnings(text: &str) -> Vec<String> {
    let warnings = sound(text).warnings.into_iter();
    warnings
        .map(|warning| warning.message.to_string())
        .collect()
}
