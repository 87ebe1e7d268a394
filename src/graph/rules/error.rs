//! Errors of a graph file: the rule, the location, and a suggested fix.

use std::{fmt, sync::Arc};

/// Rule broken by a graph. Each has a number, in whose order they are checked, and the texts that
/// clients and readers of logs know.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum GraphRule {
    /// Another servable has the name.
    NameTaken,
    /// The file cannot be read.
    File,
    /// The file is empty.
    Empty,
    /// The file is not a graph.
    Text,
    /// The pool directive is invalid, or does not fit the graph.
    Pool,
    /// Two inputs have the same name.
    InputName,
    /// Two outputs have the same name.
    OutputName,
    /// There is no input, or no output.
    NoPorts,
    /// TensorFlow Lite tensors, which clients cannot send.
    TfLite,
    /// There is a whole request as input, but no whole response as output.
    NoResponse,
    /// There is a whole response as output, but no whole request as input.
    NoRequest,
    /// With a whole request, there must be exactly one output.
    RequestOutputs,
    /// With a whole request, there must be exactly one input.
    RequestInputs,
    /// Invalid streams, tags, side packets, handlers, or contract of a calculator.
    Wiring,
    /// A Python node has no options.
    PythonOptions,
    /// A Python node has no name.
    PythonName,
    /// Two Python nodes have the same name.
    PythonRepeated,
    /// A Python node's options name no file.
    PythonPath,
    /// The file of a Python node does not exist.
    PythonFile,
    /// The class of a Python node cannot be instantiated.
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

/// Error of a graph file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GraphFileError {
    /// Broken rule.
    pub rule: GraphRule,
    /// Path of the file.
    pub file: Arc<str>,
    /// Line and column, from 1; `None` for the file as a whole.
    pub place: Option<(usize, usize)>,
    /// Node, if it concerns one.
    pub node: Option<String>,
    /// Subject named in the log: a stream, a node, a path.
    pub subject: String,
    /// Error message.
    pub message: String,
    /// Suggested fix.
    pub hint: Option<String>,
}

impl GraphFileError {
    /// Creates an error of the file as a whole.
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

    /// Returns the log line, for the graph of this name.
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

    /// Returns the well-known text of the error in the log.
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

impl fmt::Display for GraphFileError {
    /// Formats file and location, node, message, and suggested fix.
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

/// Warning about a graph file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileWarning {
    /// Path of the file.
    pub file: Arc<str>,
    /// Line and column, from 1.
    pub place: (usize, usize),
    /// Node, if it concerns one.
    pub node: Option<String>,
    /// Message.
    pub message: String,
}

impl fmt::Display for FileWarning {
    /// Formats file and location, node and message.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (line, column) = self.place;
        write!(f, "{}:{line}:{column}: ", self.file)?;
        if let Some(node) = &self.node {
            write!(f, "node `{node}`: ")?;
        }
        f.write_str(&self.message)
    }
}

/// All errors of a graph, in the order of the rules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GraphErrors {
    /// Errors; never empty. The first determines the graph's status.
    pub errors: Vec<GraphFileError>,
    /// Additional warnings.
    pub warnings: Vec<FileWarning>,
}

impl GraphErrors {
    /// Creates a list of one error.
    #[must_use]
    pub fn one(error: GraphFileError) -> Self {
        Self {
            errors: vec![error],
            warnings: Vec::new(),
        }
    }

    /// Returns the first broken rule.
    ///
    /// # Panics
    ///
    /// If there are no errors.
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

    /// Returns the log lines, for the graph of this name.
    #[must_use]
    pub fn log(&self, graph: &str) -> Vec<String> {
        self.errors.iter().map(|error| error.log(graph)).collect()
    }
}

impl fmt::Display for GraphErrors {
    /// Formats each error on a line.
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
