//! New graphs as text: the graph file, the Python handlers of its nodes, a test for them, and a README.
//!
//! The texts are in `templates/`; `files.rs` has what fills them in. Nothing is read or written here.
//! [`Scaffold`] says what is wanted, [`Scaffold::files`] gives the files. Each handler gives back what
//! it is given, so that a new graph can be tried as it is.

mod files;
mod sample;
mod stream;
mod wiring;

use std::fmt::Display;

pub use sample::flags;
pub use stream::{ScaffoldStream, StreamError};

use files::{GraphText, HandlerText, ReadmeText, TestText};
use wiring::Wiring;

/// A graph to be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scaffold {
    /// Its name.
    pub name: String,
    /// Kind of graph.
    pub kind: ScaffoldKind,
    /// Inputs of the graph.
    pub inputs: Vec<ScaffoldStream>,
    /// Outputs of the graph.
    pub outputs: Vec<ScaffoldStream>,
    /// Whether the last Python node gives any number of answers to each request.
    pub generative: bool,
    /// The configuration file, as it is typed in the folder of the graph.
    pub config: String,
}

/// Kinds of graphs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ScaffoldKind {
    /// Python nodes, one after the other.
    Chain(Vec<String>),
    /// A Python node before a model, and one after it.
    Model(ScaffoldServable),
}

/// A model or pipeline in a graph.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScaffoldServable {
    /// Its name on the server.
    pub name: String,
    /// Its inputs and outputs by their own names; `None` if nobody knows, and then it has one of each.
    pub ports: Option<(Vec<ScaffoldStream>, Vec<ScaffoldStream>)>,
}

/// A file below the folder of the graph.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct File {
    /// Its name.
    pub name: String,
    /// Its content.
    pub text: String,
}

/// Why a graph cannot be written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ScaffoldError {
    /// A node that cannot be called so.
    #[error(
        "`{}` cannot be the name of a node: expected lower case letters, digits and `_`, a letter first",
        .0.escape_debug()
    )]
    Node(String),
    /// Two nodes with one name.
    #[error("two nodes are called `{0}`; each needs a name of its own")]
    NodeTwice(String),
    /// Two streams with one name.
    #[error("two inputs or outputs are called `{0}`; each needs a name of its own")]
    StreamTwice(String),
    /// No node, input or output.
    #[error("a graph needs at least one {0}")]
    None(&'static str),
}

impl File {
    fn new(name: &str, template: &impl Display) -> Self {
        Self {
            name: name.to_owned(),
            // A template ends before its last line break.
            text: format!("{template}\n"),
        }
    }
}

impl Scaffold {
    /// Makes the files: the graph file first.
    ///
    /// # Errors
    ///
    /// Fails if names cannot be used, or are used twice.
    pub fn files(&self) -> Result<Vec<File>, ScaffoldError> {
        let wiring = &Wiring::new(self)?;
        let mut files = vec![File::new("graph.pbtxt", &GraphText { of: self, wiring })];
        for node in wiring.python() {
            files.push(File::new(
                &node.file,
                &HandlerText {
                    graph: &self.name,
                    node,
                },
            ));
        }
        files.push(File::new(&self.test_file(), &TestText { of: self, wiring }));
        files.push(File::new("README.md", &ReadmeText { of: self, wiring }));
        Ok(files)
    }

    /// Returns the graph as commands take it in its folder.
    fn place(&self) -> String {
        match self.kind {
            ScaffoldKind::Chain(_) => ".".to_owned(),
            // It needs the model, which the configuration file has.
            ScaffoldKind::Model(_) => format!("{} {}", self.config, self.name),
        }
    }

    /// Returns the name of the file with the tests.
    fn test_file(&self) -> String {
        let plain = |c: char| match c.is_ascii_alphanumeric() {
            true => c.to_ascii_lowercase(),
            false => '_',
        };
        let name: String = self.name.chars().map(plain).collect();
        format!("test_{name}.py")
    }
}

#[cfg(test)]
mod tests;
