//! The nodes of a new graph, and the names of the streams between them.

use std::collections::HashSet;

use crate::tensor::DataType;

use super::{
    Scaffold, ScaffoldError, ScaffoldKind, ScaffoldServable,
    sample::Sample,
    stream::{ScaffoldStream, is_name, spelled},
};

/// The nodes, first to last.
pub(super) struct Wiring {
    pub(super) steps: Vec<Step>,
}

/// A node.
pub(super) enum Step {
    Python(Python),
    Model(Model),
}

/// A Python node.
pub(super) struct Python {
    pub(super) name: String,
    /// Its handler, beside the graph file.
    pub(super) file: String,
    pub(super) inputs: Vec<ScaffoldStream>,
    pub(super) outputs: Vec<ScaffoldStream>,
    pub(super) generative: bool,
    /// Marks the first node, whose inputs come from clients.
    pub(super) is_first: bool,
    pub(super) gives: HandlerGives,
}

/// Values of a handler's outputs of which nothing that it is given has type and shape.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum HandlerGives {
    /// Something else.
    Others,
    /// Zeros, where the type is another one, or no shape is of both.
    Zeros,
    /// Zeros, also where a model takes fewer shapes.
    ModelZeros,
}

/// A model with the converters around it.
pub(super) struct Model {
    pub(super) servable: String,
    pub(super) inputs: Vec<Wire>,
    pub(super) outputs: Vec<Wire>,
    /// Indicates that the model's own names are known.
    pub(super) is_known: bool,
}

/// An input or output of a model.
pub(super) struct Wire {
    /// Name, datatype and shape on the model's side.
    pub(super) port: ScaffoldStream,
    /// The stream of Python tensors.
    pub(super) python: String,
    /// The stream of OpenVINO's tensors.
    pub(super) tensor: String,
    /// Its tag at the node that runs the model.
    pub(super) tag: String,
}

/// Modules that come with Python, or that tests import, and have names that nodes may well have. A file of such a name
/// would be taken for them by whatever runs in its folder.
const MODULES: &str = "
    abc argparse array ast base64 binascii bisect calendar cmd code codecs collections
    configparser contextlib copy csv ctypes dataclasses datetime decimal difflib dis email enum
    errno fractions functools gc glob graphlib gzip hashlib heapq hmac html http importlib
    inspect io json keyword locale logging math numbers numpy operator os parser pathlib pickle
    platform pprint profile pyovms queue random re sched secrets select selectors shutil signal
    site socket statistics string struct subprocess symtable sys tarfile tempfile test textwrap
    threading time timeit token tokenize trace traceback types typing unicodedata unittest
    urllib uuid warnings wave weakref xml zipfile zlib
";

/// An input of a Python node that its handler gives back, as written, as an output.
pub(super) struct HandlerEcho<'a> {
    /// The input's place among the inputs.
    pub(super) place: usize,
    /// Indicates that a client sends texts, which come back in capitals.
    pub(super) is_text: bool,
    pub(super) input: &'a str,
    pub(super) output: &'a str,
    /// Zeros that are given instead, where the output is of another type or shape than all that the node is given.
    pub(super) blank: Option<Sample>,
}

impl Python {
    /// Returns what the outputs give back.
    pub(super) fn echoes(&self) -> impl Iterator<Item = HandlerEcho<'_>> {
        self.outputs.iter().enumerate().map(|(index, output)| {
            let is_fit = |input: &ScaffoldStream| match self.gives {
                HandlerGives::Others => output.dtype.is_none() || input.dtype == output.dtype,
                _ if output.dtype.is_none() || input.dtype.is_none() => true,
                HandlerGives::Zeros => input.meets(output),
                HandlerGives::ModelZeros => input.fits(output),
            };
            let place = index.min(self.inputs.len() - 1);
            // The input in its place, or the first of its type.
            let place = match is_fit(&self.inputs[place]) {
                true => place,
                false => self.inputs.iter().position(is_fit).unwrap_or(place),
            };
            let blank = self.gives != HandlerGives::Others && !is_fit(&self.inputs[place]);
            HandlerEcho {
                place,
                is_text: self.is_first && self.inputs[place].dtype == Some(DataType::String),
                input: &self.inputs[place].name,
                output: &output.name,
                blank: blank.then(|| Sample::of(output)),
            }
        })
    }

    /// Returns whether an output gives back texts, or one anything else.
    pub(super) fn has_echo(&self, is_text: bool) -> bool {
        let mut echoes = self.echoes().filter(|echo| echo.blank.is_none());
        echoes.any(|echo| echo.is_text == is_text)
    }

    /// Returns whether an output is zeros, of texts or of anything else.
    pub(super) fn has_blank(&self, is_text: bool) -> bool {
        let mut blanks = self.echoes().filter_map(|echo| echo.blank);
        blanks.any(|blank| (blank.dtype == DataType::String) == is_text)
    }

    /// Returns the outputs that are zeros.
    pub(super) fn blanks(&self) -> impl Iterator<Item = &ScaffoldStream> {
        let echoes = self.echoes().zip(&self.outputs);
        echoes.filter_map(|(echo, output)| echo.blank.is_some().then_some(output))
    }

    /// Returns the first input whose type the handler looks at: those of others come from handlers.
    pub(super) fn first_typed(&self) -> Option<&ScaffoldStream> {
        let mut inputs = self.inputs.iter().filter(|_| self.is_first);
        inputs.find(|input| input.dtype.is_some())
    }

    /// Returns the name as that of a class.
    pub(super) fn class(&self) -> String {
        let words = self
            .name
            .split('_')
            .filter_map(|word| word.split_at_checked(1));
        words
            .map(|(first, rest)| first.to_ascii_uppercase() + rest)
            .collect()
    }
}

impl Wire {
    /// Describes the model's side in a comment, which ends with the line.
    pub(super) fn comment(&self) -> String {
        self.port.to_string().replace(char::is_control, " ")
    }
}

impl Wiring {
    pub(super) fn new(of: &Scaffold) -> Result<Self, ScaffoldError> {
        for (streams, what) in [(&of.inputs, "input"), (&of.outputs, "output")] {
            if streams.is_empty() {
                return Err(ScaffoldError::None(what));
            }
        }
        let mut names = Names(HashSet::new());
        for stream in of.inputs.iter().chain(&of.outputs) {
            if !names.0.insert(stream.name.clone()) {
                return Err(ScaffoldError::StreamTwice(stream.name.clone()));
            }
        }
        let steps = match &of.kind {
            ScaffoldKind::Chain(nodes) => chain(of, nodes, &mut names)?,
            ScaffoldKind::Model(servable) => around(of, servable, &mut names),
        };
        Ok(Self { steps })
    }

    /// Returns whether tests of handlers have inputs that are arrays of NumPy.
    pub(super) fn has_arrays(&self) -> bool {
        let mut inputs = self.python().flat_map(|node| &node.inputs);
        inputs.any(|input| Sample::of(input).numpy().is_some())
    }

    /// Returns whether a handler gives back texts.
    pub(super) fn has_texts(&self) -> bool {
        self.python().any(|node| node.has_echo(true))
    }

    /// Returns the inputs of the model that get zeros.
    pub(super) fn blanks(&self) -> impl Iterator<Item = &ScaffoldStream> {
        let wires = self.steps.iter().flat_map(|step| match step {
            Step::Model(model) => &model.inputs[..],
            Step::Python(_) => &[],
        });
        let is_blank = |wire: &&Wire| {
            let mut blanks = self.python().flat_map(Python::blanks);
            blanks.any(|blank| blank.name == wire.python)
        };
        wires.filter(is_blank).map(|wire| &wire.port)
    }

    /// Returns the outputs of Python nodes without a model that are zeros, each with its node's handler.
    pub(super) fn zeros(&self) -> impl Iterator<Item = (&ScaffoldStream, &str)> {
        let mut steps = self.steps.iter();
        let is_chain = steps.all(|step| matches!(step, Step::Python(_)));
        let nodes = self.python().filter(move |_| is_chain);
        nodes.flat_map(|node| node.blanks().map(|blank| (blank, &node.file[..])))
    }

    /// Returns the outputs of the graph that are of another type or shape than what the handler behind the model gives
    /// back for them, each with that output of the model.
    pub(super) fn unlike(&self) -> Vec<(&ScaffoldStream, &ScaffoldStream)> {
        let [.., Step::Model(model), Step::Python(last)] = &self.steps[..] else {
            return Vec::new();
        };
        let outputs = last.echoes().zip(&last.outputs);
        let pairs = outputs.filter_map(|(echo, output)| {
            let port = &model.outputs.get(echo.place)?.port;
            let is_open = output.dtype.is_none() || port.dtype.is_none();
            (!is_open && !port.fits(output)).then_some((output, port))
        });
        pairs.collect()
    }

    /// Returns the Python nodes.
    pub(super) fn python(&self) -> impl Iterator<Item = &Python> {
        self.steps.iter().filter_map(|step| match step {
            Step::Python(node) => Some(node),
            Step::Model(_) => None,
        })
    }
}

/// Names that are taken.
struct Names(HashSet<String>);

impl Names {
    /// Takes a name like this one that is free.
    fn free(&mut self, wanted: &str) -> String {
        let mut name = spelled(wanted);
        let base = name.clone();
        for number in 2.. {
            if self.0.insert(name.clone()) {
                break;
            }
            name = format!("{base}_{number}");
        }
        name
    }
}

fn chain(of: &Scaffold, nodes: &[String], names: &mut Names) -> Result<Vec<Step>, ScaffoldError> {
    if nodes.is_empty() {
        return Err(ScaffoldError::None("node"));
    }
    let mut steps = Vec::new();
    let mut known = HashSet::new();
    let mut inputs = of.inputs.clone();
    for (index, name) in nodes.iter().enumerate() {
        if !is_name(name) || name.starts_with('_') {
            return Err(ScaffoldError::Node(name.clone()));
        }
        if !known.insert(name) {
            return Err(ScaffoldError::NodeTwice(name.clone()));
        }
        let is_last = index + 1 == nodes.len();
        let between =
            |output: &ScaffoldStream| output.named(names.free(&format!("{name}_{}", output.name)));
        let outputs: Vec<ScaffoldStream> = match is_last {
            true => of.outputs.clone(),
            false => of.outputs.iter().map(between).collect(),
        };
        steps.push(Step::Python(Python {
            name: name.clone(),
            file: handler_file(name),
            inputs,
            outputs: outputs.clone(),
            generative: of.generative && is_last,
            is_first: index == 0,
            gives: HandlerGives::Zeros,
        }));
        inputs = outputs;
    }
    Ok(steps)
}

fn around(of: &Scaffold, servable: &ScaffoldServable, names: &mut Names) -> Vec<Step> {
    let is_known = servable.ports.is_some();
    let port = |name: &str| vec![ScaffoldStream::untyped(name)];
    let ports = servable.ports.clone();
    let (inputs, outputs) = ports.unwrap_or_else(|| (port("input"), port("output")));
    let mut wires = |ports: Vec<ScaffoldStream>, way: &str| -> Vec<Wire> {
        let single = ports.len() == 1;
        let mut tags = Names(HashSet::new());
        let mut wires = Vec::new();
        for port in ports {
            let python = names.free(&format!("{way}_{}", port.name));
            let tensor = names.free(&format!("{python}_ov"));
            let tag = match single {
                true => "OVTENSOR".to_owned(),
                false => format!("OVTENSOR_{}", tags.free(&port.name).to_ascii_uppercase()),
            };
            wires.push(Wire {
                port,
                python,
                tensor,
                tag,
            });
        }
        wires
    };
    let (inputs, outputs) = (wires(inputs, "to"), wires(outputs, "from"));
    let streams = |wires: &[Wire]| -> Vec<ScaffoldStream> {
        let wires = wires.iter();
        wires
            .map(|wire| wire.port.named(wire.python.clone()))
            .collect()
    };
    let python = |name: &str, inputs: Vec<ScaffoldStream>, outputs: Vec<ScaffoldStream>| {
        Step::Python(Python {
            name: name.to_owned(),
            file: handler_file(name),
            inputs,
            outputs,
            generative: false,
            is_first: name == "preprocess",
            gives: match name {
                "preprocess" if is_known => HandlerGives::ModelZeros,
                _ => HandlerGives::Others,
            },
        })
    };
    let before = python("preprocess", of.inputs.clone(), streams(&inputs));
    let after = python("postprocess", streams(&outputs), of.outputs.clone());
    let model = Step::Model(Model {
        servable: servable.name.clone(),
        inputs,
        outputs,
        is_known,
    });
    vec![before, model, after]
}

/// Returns the name of a node's handler file, which shadows no module of Python and is taken for no test.
pub fn handler_file(node: &str) -> String {
    let is_module = MODULES.split_whitespace().any(|module| module == node);
    match is_module || node.starts_with("test") {
        true => format!("{node}_node.py"),
        false => format!("{node}.py"),
    }
}
