//! What is wrong with a graph: the rule, its place in the file, and what to do.

use std::{fmt, sync::Arc};

/// A rule that a graph breaks. Each has a number, in whose order they are judged, and the texts that
/// clients and readers of logs know.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum GraphRule {
    /// Another servable has the name.
    NameTaken,
    /// The file cannot be read.
    File,
    /// The file has nothing in it.
    Empty,
    /// The file is no graph.
    Text,
    /// The directive about kept instances is wrong, or does not fit the graph.
    Pool,
    /// Two inputs have one name.
    InputName,
    /// Two outputs have one name.
    OutputName,
    /// There is no input, or no output.
    NoPorts,
    /// TensorFlow Lite's tensors, which clients cannot send.
    TfLite,
    /// Whole requests come in, but no whole response goes out.
    NoResponse,
    /// A whole response goes out, but no whole request comes in.
    NoRequest,
    /// Whole requests, with another number of outputs than one.
    RequestOutputs,
    /// Whole requests, with another number of inputs than one.
    RequestInputs,
    /// Streams, tags, side packets, handlers, or what a calculator demands.
    Wiring,
    /// A Python node has no options.
    PythonOptions,
    /// A Python node has no name.
    PythonName,
    /// Two Python nodes have one name.
    PythonRepeated,
    /// A Python node's options name no file.
    PythonPath,
    /// The file of a Python node is not there.
    PythonFile,
    /// The class of a Python node cannot be made.
    PythonState,
}

impl GraphRule {
    /// Returns the number of the rule.
    #[must_use]
    pub const fn number(self) -> u8 {
        match self {
            Self::NameTaken => 1,
            Self::File => 2,
            Self::Empty | Self::Text => 3,
            Self::Pool => 4,
            Self::InputName => 5,
            Self::OutputName => 6,
            Self::NoPorts => 7,
            Self::TfLite => 8,
            Self::NoResponse => 9,
            Self::NoRequest => 10,
            Self::RequestOutputs | Self::RequestInputs => 11,
            Self::Wiring => 12,
            Self::PythonOptions
            | Self::PythonName
            | Self::PythonRepeated
            | Self::PythonPath
            | Self::PythonFile
            | Self::PythonState => 13,
        }
    }

    /// Returns the status text.
    #[must_use]
    pub const fn status(self) -> &'static str {
        match self {
            Self::NameTaken => "Given mediapipe graph name is already occupied",
            Self::File => "File not found or cannot open",
            Self::Empty | Self::Text | Self::Pool | Self::PythonPath => {
                "Failed to read protobuf graph configuration file"
            }
            Self::InputName => "Mediapipe unexpected input stream packets name",
            Self::OutputName => "Mediapipe unexpected output stream packets name",
            Self::NoPorts => "Internal server error",
            Self::TfLite => "Functionality not implemented",
            Self::NoResponse => {
                "Mediapipe KFS pass through graph is missing RESPONSE: string in the output name"
            }
            Self::NoRequest => {
                "Mediapipe KFS pass through graph is missing REQUEST: string in the input name"
            }
            Self::RequestOutputs => "Mediapipe unexpected output stream packets count",
            Self::RequestInputs => "Mediapipe unexpected input stream packets count",
            Self::Wiring => "Failed to initialize mediapipe graph",
            Self::PythonOptions => "The Python Node is missing options definition",
            Self::PythonName => "The Python Node is missing name definition",
            Self::PythonRepeated => "The Python Node name is already present in nodes list",
            Self::PythonFile => "The Python Node file path does not exist",
            Self::PythonState => "The Python Node state initialization failed",
        }
    }
}

/// One fault of a graph.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileError {
    /// The rule that is broken.
    pub rule: GraphRule,
    /// The file.
    pub file: Arc<str>,
    /// Line and column, from 1; `None` if it is the file as a whole.
    pub place: Option<(usize, usize)>,
    /// The node, if it is one node's.
    pub node: Option<String>,
    /// What the log names: a stream, a node, a path.
    pub subject: String,
    /// What is wrong.
    pub message: String,
    /// What to do.
    pub hint: Option<String>,
}

impl FileError {
    /// Makes a fault of the file as a whole.
    #[must_use]
    pub fn of_file(rule: GraphRule, file: &str, message: impl Into<String>) -> Self {
        Self {
            rule,
            file: file.into(),
            place: None,
            node: None,
            subject: file.to_owned(),
            message: message.into(),
            hint: None,
        }
    }

    /// Returns what the log says of it, for the graph of a name.
    #[must_use]
    pub fn log(&self, graph: &str) -> String {
        let known = self.known(graph);
        let between = match known.chars().last() {
            None => "",
            Some('.') => " ",
            Some(_) => ": ",
        };
        format!("{known}{between}{self}")
    }

    /// Returns the texts that readers of logs look for.
    fn known(&self, graph: &str) -> String {
        let subject = &self.subject;
        match self.rule {
            GraphRule::NameTaken => {
                format!("Mediapipe graph name: {graph} is already occupied by model or pipeline.")
            }
            GraphRule::File => {
                format!("Failed to open mediapipe graph definition: {graph}, file: {subject}")
            }
            GraphRule::Empty => {
                format!("Trying to parse empty mediapipe graph definition: {graph} failed")
            }
            GraphRule::Text => {
                format!("Trying to parse mediapipe graph definition: {graph} failed")
            }
            GraphRule::InputName => {
                format!("Creating Mediapipe graph inputs name failed for: {subject}")
            }
            GraphRule::OutputName => {
                format!("Creating Mediapipe graph outputs name failed for: {subject}")
            }
            GraphRule::NoPorts => format!(
                "Mediapipe graph: {graph} having less than one input or output is disallowed"
            ),
            GraphRule::Wiring => {
                format!("Mediapipe graph: {graph} initialization failed with message")
            }
            GraphRule::PythonOptions => format!("Python node missing options in graph: {graph}"),
            GraphRule::PythonName => format!("Python node name is missing in graph: {graph}"),
            GraphRule::PythonRepeated => {
                format!("Python node name: {subject} already used in graph: {graph}")
            }
            GraphRule::PythonFile => {
                format!("Python node handler_path: {subject} does not exist")
            }
            GraphRule::PythonState => {
                format!("Error during python node initialization for handler_path: {subject}")
            }
            GraphRule::Pool
            | GraphRule::TfLite
            | GraphRule::NoResponse
            | GraphRule::NoRequest
            | GraphRule::RequestOutputs
            | GraphRule::RequestInputs
            | GraphRule::PythonPath => String::new(),
        }
    }
}

impl fmt::Display for FileError {
    /// Writes file and place, node, what is wrong, and what to do.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        if let Some((line, column)) = self.place {
            write!(f, ":{line}:{column}")?;
        }
        f.write_str(": ")?;
        if let Some(node) = &self.node {
            write!(f, "node `{node}`: ")?;
        }
        f.write_str(&self.message)?;
        if let Some(hint) = &self.hint {
            write!(f, "; {hint}")?;
        }
        Ok(())
    }
}

/// Something about a graph that is worth a word, but no fault.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileWarning {
    /// The file.
    pub file: Arc<str>,
    /// Line and column, from 1.
    pub place: (usize, usize),
    /// The node, if it is about one.
    pub node: Option<String>,
    /// What about it.
    pub message: String,
}

impl fmt::Display for FileWarning {
    /// Writes file and place, node and message.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (line, column) = self.place;
        write!(f, "{}:{line}:{column}: ", self.file)?;
        if let Some(node) = &self.node {
            write!(f, "node `{node}`: ")?;
        }
        f.write_str(&self.message)
    }
}

/// Every fault of a graph, in the order of the rules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GraphErrors {
    /// The faults; never empty. The first decides what the graph's status says.
    pub errors: Vec<FileError>,
    /// What would have been worth a word besides.
    pub warnings: Vec<FileWarning>,
}

impl GraphErrors {
    /// Makes the faults of one.
    #[must_use]
    pub fn one(error: FileError) -> Self {
        Self {
            errors: vec![error],
            warnings: Vec::new(),
        }
    }

    /// Returns the rule that decides.
    ///
    /// # Panics
    ///
    /// If there is no fault.
    #[must_use]
    pub fn rule(&self) -> GraphRule {
        self.errors[0].rule
    }

    /// Returns the status text of the graph, with the reason.
    #[must_use]
    pub fn status(&self) -> String {
        let error = &self.errors[0];
        let status = error.rule.status();
        match &error.node {
            Some(node) => format!("{status} - node `{node}`: {}", error.message),
            None => format!("{status} - {}", error.message),
        }
    }

    /// Returns the lines that the log gets, for the graph of a name.
    #[must_use]
    pub fn log(&self, graph: &str) -> Vec<String> {
        self.errors.iter().map(|error| error.log(graph)).collect()
    }
}

impl fmt::Display for GraphErrors {
    /// Writes every fault on a line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, error) in self.errors.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{error}")?;
        }
        Ok(())
    }
}

impl std::error::Error for GraphErrors {}
