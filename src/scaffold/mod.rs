//! New graphs as text: the graph file, the Python handlers of its nodes, a test for them, and a README.
//!
//! The texts are in `templates/`; `files.rs` has what fills them in. Nothing is read or written here.
//! [`Scaffold`] says what is wanted, [`Scaffold::files`] gives the files. Each handler gives back what
//! it is given, texts in capitals, so that a new graph can be tried as it is.

mod files;
mod sample;
mod stream;
mod wiring;

pub use sample::flags;
pub use stream::{ScaffoldStream, StreamError};
pub use wiring::handler_file;

use files::FileText;
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
    /// Lets the last Python node give any number of answers to each request.
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

/// Error of writing a graph.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ScaffoldError {
    /// A node that cannot be called so.
    #[error(
        "`{}` cannot be the name of a node: expected lower case letters, digits and `_`, starting with a letter",
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

impl Scaffold {
    /// Makes the files, each with its name and content: the graph file first.
    ///
    /// # Errors
    ///
    /// Fails if names cannot be used, or are used twice.
    pub fn files(&self) -> Result<Vec<(String, String)>, ScaffoldError> {
        let (of, wiring) = (self, &Wiring::new(self)?);
        // A template ends before its last line break.
        let file = |name: &str, text: FileText<'_>| (name.to_owned(), format!("{text}\n"));
        let mut files = vec![file("graph.pbtxt", FileText::Graph { of, wiring })];
        let graph = &self.name;
        let handlers = wiring
            .python()
            .map(|node| file(&node.file, FileText::Handler { graph, node }));
        files.extend(handlers);
        files.push(file(&self.test_file(), FileText::Test { of, wiring }));
        files.push(file("README.md", FileText::Readme { of, wiring }));
        Ok(files)
    }

    /// Returns the inputs of the model for which the handler before it gives zeros, since nothing that clients
    /// send is of their type and shape.
    ///
    /// # Errors
    ///
    /// Fails as [`Self::files`] does.
    pub fn blanks(&self) -> Result<Vec<ScaffoldStream>, ScaffoldError> {
        Ok(Wiring::new(self)?.blanks().cloned().collect())
    }

    /// Returns the outputs of nodes of a graph without a model that are zeros, since nothing that the node is given is
    /// of their type and shape; each with the handler of the node.
    ///
    /// # Errors
    ///
    /// Fails as [`Self::files`] does.
    pub fn zeros(&self) -> Result<Vec<(ScaffoldStream, String)>, ScaffoldError> {
        let wiring = Wiring::new(self)?;
        let zeros = wiring.zeros();
        Ok(zeros
            .map(|(output, file)| (output.clone(), file.to_owned()))
            .collect())
    }

    /// Returns the outputs that were asked for with another type or shape than what the handler behind the model
    /// gives, each with that output of the model.
    ///
    /// # Errors
    ///
    /// Fails as [`Self::files`] does.
    pub fn unlike(&self) -> Result<Vec<(ScaffoldStream, ScaffoldStream)>, ScaffoldError> {
        let wiring = Wiring::new(self)?;
        let pairs = wiring.unlike().into_iter();
        Ok(pairs
            .map(|(output, port)| (output.clone(), port.clone()))
            .collect())
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
        format!("test_{}.py", stream::plain(&self.name))
    }
}

#[cfg(test)]
mod tests;
