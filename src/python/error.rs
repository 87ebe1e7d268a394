//! Errors of Python handlers.

use std::{
    borrow::Cow,
    fmt,
    path::{Path, PathBuf},
};

use super::worker::{PythonEnvironment, group::COMMON};
use crate::error::{ErrorKind, nearest};

/// Exception of a handler, or a result that breaks the rules for results.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Raised {
    /// Type of the exception, such as `ValueError`.
    pub kind: String,
    /// Message; the end of a very long text is left out.
    pub message: String,
    /// Traceback, as formatted by Python; empty if no Python code raised it.
    pub traceback: String,
    /// Line of the handler file where it passed, from 1, if it did.
    pub line: Option<u32>,
}

/// Message of what `breakpoint()` raises where nobody can type, which comes without one.
const NO_TERMINAL: &str = "`breakpoint()` works at the terminal of `ovms graph run` and `ovms pipeline run` only; remove \
                           it from a handler that is served";

impl From<pyovms::message::Raised> for Raised {
    fn from(raised: pyovms::message::Raised) -> Self {
        let is_debugger = raised.kind == "BdbQuit" && raised.message.is_empty();
        Self {
            kind: raised.kind,
            message: match is_debugger && COMMON.terminal().is_none() {
                true => NO_TERMINAL.to_owned(),
                false => raised.message,
            },
            traceback: raised.traceback,
            line: (raised.line > 0).then_some(raised.line),
        }
    }
}

/// Module of Triton's Python backend, which is not installed but part of it.
const TRITON_MODULE: &str = "triton_python_backend_utils";

/// Advice for a model of Triton's Python backend.
pub const OF_TRITON: &str = "the file is a model of Triton's Python backend, which alone has TritonPythonModel and \
                             triton_python_backend_utils; docs/triton.md, \"Ensembles and Python models\", says how it \
                             becomes an OvmsPythonModel";

/// Keys that `args` of Triton's `initialize` has, and `kwargs` of ours does not.
const TRITON_KEYS: [&str; 6] = [
    "'model_config'",
    "'model_instance_device_id'",
    "'model_instance_kind'",
    "'model_instance_name'",
    "'model_repository'",
    "'model_version'",
];

/// Advice for a handler that asks for them.
const OF_TRITON_KEYS: &str = "that key is one of `args` in Triton's Python backend; docs/triton.md, \"Ensembles and Python \
                              models\", has what `kwargs` has in its place";

/// Advice for a handler in a graph that asks for parameters.
const NO_PARAMS: &str = "nodes of pipelines alone have `params`; a graph has constants in the handler, or a file beside it, \
                         whose folder is `kwargs[\"base_path\"]`";

impl Raised {
    /// Returns a text about it as the log has it: behind the traceback, if that says more.
    pub fn for_log(&self, text: &str) -> String {
        match self.traceback.trim_end() {
            "" => text.to_owned(),
            traceback if traceback == self.to_string() => text.to_owned(),
            traceback => format!("{traceback}\n{text}"),
        }
    }

    /// Returns what helps where a module, or a file that is beside the handler, is not there; `None` if it is
    /// anything else.
    pub fn advice(&self, handler: &Path) -> Option<&'static str> {
        if self.is_beside(handler) {
            return Some(BESIDE);
        }
        if self.kind == "KeyError" {
            return match &*self.message {
                key if TRITON_KEYS.contains(&key) => Some(OF_TRITON_KEYS),
                "'params'" => Some(NO_PARAMS),
                _ => None,
            };
        }
        const INSTALL: &str = "install it into the Python environment that the server is started with, or name another \
                               with --python-environment";
        let advice = match self.message.contains(TRITON_MODULE) {
            true => OF_TRITON,
            false => INSTALL,
        };
        (self.kind == "ModuleNotFoundError").then_some(advice)
    }

    /// Returns whether a file was not found by a relative path that leads to one from the folder of the handler.
    fn is_beside(&self, handler: &Path) -> bool {
        if self.kind != "FileNotFoundError" {
            return false;
        }
        let quoted = self.message.split_once(": '").map(|(_, name)| name);
        let name = quoted.and_then(|name| name.strip_suffix('\''));
        let (Some(name), Some(folder)) = (name.map(Path::new), handler.parent()) else {
            return false;
        };
        name.is_relative() && folder.join(name).exists()
    }
}

/// Advice for a handler that opens a file of its folder by a relative path.
const BESIDE: &str = "a relative path begins at the folder where the server was started, and this file is beside the \
                      handler: open `os.path.join(kwargs[\"base_path\"], NAME)`";

/// Maximum number of characters that an error quotes of a name or datatype that a handler gave.
const MAX_NAME_LEN: usize = 200;

/// Cuts the end off a long text that a handler gave as a name or the like, for an error.
pub fn brief(text: &str) -> Cow<'_, str> {
    match text.char_indices().nth(MAX_NAME_LEN) {
        None => Cow::Borrowed(text),
        Some((end, _)) => {
            let more = text[end..].chars().count();
            Cow::Owned(format!("{}… ({more} more characters)", &text[..end]))
        }
    }
}

/// Error of a call of a handler.
#[derive(Clone, Debug, thiserror::Error)]
pub enum HandlerError {
    /// The handler raised an exception, or its result breaks the rules.
    #[error("{0}")]
    Raised(Raised),
    /// A worker that is missing or has ended: how, and in which node.
    #[error("{0}")]
    Worker(String),
    /// A lack of room for its inputs or outputs: whether at the moment, or always.
    #[error("{1}")]
    Memory(ErrorKind, String),
}

/// Formats as `<kind>: <message>`, or the kind alone if there is no message.
impl fmt::Display for Raised {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.kind)?;
        if self.message.is_empty() {
            return Ok(());
        }
        write!(formatter, ": {}", self.message)
    }
}

impl std::error::Error for Raised {}

/// A method of a handler that cannot be called as the server calls it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{method}` cannot be called as it is: found `{found}`, expected `{expected}`")]
pub struct Misfit {
    /// Name of the method.
    pub method: String,
    /// Signature of the method, or what else it is.
    pub found: String,
    /// Signature that it should have.
    pub expected: String,
    /// File and line of its definition, from 1, as far as they are known.
    pub place: Option<(PathBuf, usize)>,
}

impl From<pyovms::message::Misfit> for Misfit {
    fn from(misfit: pyovms::message::Misfit) -> Self {
        let line = usize::try_from(misfit.line).unwrap_or_default();
        let is_known = line > 0 && !misfit.file.is_empty();
        Self {
            method: misfit.method,
            found: misfit.found,
            expected: misfit.expected,
            place: is_known.then(|| (PathBuf::from(misfit.file), line)),
        }
    }
}

impl Misfit {
    /// Returns what the server does with the method.
    pub fn help(&self) -> &'static str {
        match &*self.method {
            "__init__" => "the server makes the object by `OvmsPythonModel()`",
            "initialize" => {
                "the server calls `initialize(kwargs)` once, with a dictionary of what it knows of the node"
            }
            "execute" if self.expected.ends_with("state)") => {
                "the server calls `execute(inputs, state=…)` for each request: a list of pyovms.Tensor, and what `create_state` has made"
            }
            "execute" if self.found.contains(", state") => {
                "the server calls `execute(inputs)` for each request, with a list of pyovms.Tensor; it has a state as well where the class has `create_state`"
            }
            "execute" => {
                "the server calls `execute(inputs)` for each request, with a list of pyovms.Tensor"
            }
            "create_state" => "the server calls `create_state()` for each request or stream",
            "destroy_state" => {
                "the server calls `destroy_state(state)` with what `create_state` has made, at the end of each request or stream"
            }
            _ => "the server calls `finalize()` once at the end",
        }
    }

    /// Returns it with its place and what helps, as one line.
    pub fn line(&self) -> String {
        let help = self.help();
        match &self.place {
            Some((file, line)) => format!("{}:{line}: {self}: {help}", file.display()),
            None => format!("{self}: {help}"),
        }
    }
}

/// Error of loading the handler of a node. The texts are the lines of the log.
#[derive(Clone, Debug, thiserror::Error)]
pub enum HandlerLoadError {
    /// The file does not exist.
    #[error("Python node handler_path: {} does not exist{}", path.display(), meant(near.as_deref()))]
    NoFile {
        /// Path of the handler file.
        path: PathBuf,
        /// Name of the file beside it that may be meant.
        near: Option<String>,
    },
    /// The module, the constructor or `initialize` raised an exception.
    #[error(
        "Error during python node initialization for handler_path: {} - {raised}",
        path.display()
    )]
    Raised {
        /// Path of the handler file.
        path: PathBuf,
        /// Exception.
        raised: Raised,
    },
    /// The module has no class of that name.
    #[error("No OvmsPythonModel class found in {}", .0.display())]
    NoClass(PathBuf),
    /// The class has no method `execute`.
    #[error("OvmsPythonModel class in {} does not implement execute method", .0.display())]
    NoExecute(PathBuf),
    /// Methods of the class cannot be called as the server calls them, which a check alone takes for an error.
    #[error("{}", lines(misfits))]
    Misfits {
        /// Path of the handler file.
        path: PathBuf,
        /// The methods; at least one.
        misfits: Vec<Misfit>,
    },
    /// The worker ended meanwhile, or has not done what it was asked.
    #[error(
        "Error during python node initialization for handler_path: {} - {reason}",
        path.display()
    )]
    Worker {
        /// Path of the handler file.
        path: PathBuf,
        /// Description of its end.
        reason: String,
        /// Line of the handler file where it was at its end, from 1, if it was in it and that is known.
        line: Option<u32>,
        /// Indicates that it was importing the handler file then, as far as that is known.
        is_import: bool,
    },
    /// The interpreter is unavailable.
    #[error(
        "Error during python node initialization for handler_path: {} - {reason}",
        path.display()
    )]
    NoInterpreter {
        /// Path of the handler file.
        path: PathBuf,
        /// Reason, and suggested fix.
        reason: String,
    },
    /// The environment that is named for the graph or pipeline cannot be used.
    #[error("{}:{}: {reason}", environment.file, environment.place)]
    Environment {
        /// The environment, and where it is named.
        environment: Box<PythonEnvironment>,
        /// Reason, and suggested fix.
        reason: String,
    },
}

impl HandlerLoadError {
    /// Returns the status text known to operators.
    pub const fn status_text(&self) -> &'static str {
        match self {
            Self::NoFile { .. } => "The Python Node file path does not exist",
            Self::Raised { .. }
            | Self::NoClass(_)
            | Self::NoExecute(_)
            | Self::Misfits { .. }
            | Self::Worker { .. }
            | Self::NoInterpreter { .. }
            | Self::Environment { .. } => "The Python Node state initialization failed",
        }
    }

    /// Returns what to do about it.
    pub fn advice(&self) -> &'static str {
        match self {
            Self::NoInterpreter { .. } => "name another environment with --python-environment",
            Self::NoClass(path) if is_of_triton(path) => OF_TRITON,
            _ => {
                let of_raised = self.of_raised();
                of_raised.unwrap_or("correct the handler; the log has where it was raised")
            }
        }
    }

    fn of_raised(&self) -> Option<&'static str> {
        match self {
            Self::Raised { path, raised } => raised.advice(path),
            _ => None,
        }
    }

    /// Returns what to do about a file that was looked for in another folder than that of the handler.
    pub fn missing_file(&self) -> Option<&'static str> {
        self.of_raised().filter(|advice| *advice == BESIDE)
    }

    /// Returns it as the log has it: behind the traceback, if there is one.
    pub fn for_log(&self) -> String {
        let text = self.to_string();
        self.raised()
            .map_or(text.clone(), |raised| raised.for_log(&text))
    }

    /// Returns the exception raised by Python code.
    pub const fn raised(&self) -> Option<&Raised> {
        match self {
            Self::Raised { raised, .. } => Some(raised),
            _ => None,
        }
    }
}

/// Returns whether a file that has no handler has a model of Triton's Python backend.
pub fn is_of_triton(path: &Path) -> bool {
    let text = std::fs::read(path).unwrap_or_default();
    String::from_utf8_lossy(&text).contains("class TritonPythonModel")
}

/// Formats methods, one after the other.
fn lines(misfits: &[Misfit]) -> String {
    let lines = misfits.iter().map(Misfit::line);
    lines.collect::<Vec<_>>().join("; ")
}

/// Formats the file that may be meant.
fn meant(near: Option<&str>) -> String {
    near.map_or_else(String::new, |near| format!("; did you mean `{near}`?"))
}

/// Returns the name of the Python file beside a handler that is not there whose name is near to that of the handler.
pub fn handler_near(path: &Path) -> Option<String> {
    let name = path.file_name()?.to_string_lossy();
    let entries = path.parent()?.read_dir().into_iter().flatten().flatten();
    let files = entries.filter(|entry| entry.path().is_file());
    let names = files.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let names: Vec<String> = names.filter(|name| name.ends_with(".py")).collect();
    nearest(&name, names.iter().map(String::as_str)).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{BESIDE, NO_PARAMS, OF_TRITON_KEYS, Raised, brief};

    #[test]
    fn a_file_beside_the_handler_is_found_by_base_path() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("labels.txt"), "").unwrap();
        let handler = folder.path().join("model.py");
        let advice = |name: &str| {
            let raised = Raised {
                kind: "FileNotFoundError".to_owned(),
                message: format!("[Errno 2] No such file or directory: '{name}'"),
                ..Raised::default()
            };
            raised.advice(&handler)
        };
        assert_eq!(advice("labels.txt"), Some(BESIDE));
        assert_eq!(advice("other.txt"), None);
        assert_eq!(advice("/labels.txt"), None);
    }

    #[test]
    fn keys_of_triton_have_others_in_their_place() {
        let advice = |key: &str| {
            let raised = Raised {
                kind: "KeyError".to_owned(),
                message: format!("'{key}'"),
                ..Raised::default()
            };
            raised.advice(Path::new("model.py"))
        };
        assert_eq!(advice("model_config"), Some(OF_TRITON_KEYS));
        assert_eq!(advice("params"), Some(NO_PARAMS));
        assert_eq!(advice("weights"), None);
    }

    #[test]
    fn a_long_name_is_cut_and_says_so() {
        assert_eq!(brief(&"é".repeat(200)), "é".repeat(200));
        let cut = format!("{}… (1 more characters)", "é".repeat(200));
        assert_eq!(brief(&"é".repeat(201)), cut);
    }
}
