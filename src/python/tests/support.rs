//! Handlers for tests, each in a folder of its own.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::{Arc, mpsc},
    time::Duration,
};

use bytes::Bytes;

use crate::{
    python::{
        HandlerInstance, HandlerLoadError, HandlerTensor, NodeFacts, Produced, PythonHandler,
        Raised, interpreter,
    },
    tensor::DataType,
};

/// Folder with Python files, removed at the end.
pub(super) struct Folder(tempfile::TempDir);

impl Folder {
    pub(super) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(super) fn with(self, file: &str, text: &str) -> Self {
        self.write(file, text);
        self
    }

    pub(super) fn write(&self, file: &str, text: &str) {
        let path = self.path().join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    pub(super) fn path(&self) -> &Path {
        self.0.path()
    }

    pub(super) fn file(&self, file: &str) -> PathBuf {
        self.path().join(file)
    }

    pub(super) fn load(&self, file: &str) -> Result<Arc<PythonHandler>, HandlerLoadError> {
        load(self.file(file))
    }
}

/// Loads a file as the handler of a node `node` with inputs `a`, `b` and output `out`.
pub(super) fn load(path: PathBuf) -> Result<Arc<PythonHandler>, HandlerLoadError> {
    use_environment();
    PythonHandler::load(NodeFacts {
        node_name: "node".to_owned(),
        input_names: vec!["a".to_owned(), "b".to_owned()],
        output_names: vec!["out".to_owned()],
        handler_path: path,
        params: None,
    })
}

/// Selects the packages of the environment with the tools, if there is one.
pub(super) fn use_environment() {
    let tools = Path::new(env!("WORKSPACE_ROOT")).join(".venv");
    let tools = std::env::var_os("OPENVINO_INSTALL_DIR").map_or(tools, PathBuf::from);
    crate::python::configure(None, Some(tools));
}

/// Handler made of a text.
pub(super) struct Made {
    pub(super) folder: Folder,
    pub(super) handler: Arc<PythonHandler>,
}

/// Loads a text as a handler.
pub(super) fn handler(text: &str) -> Made {
    let folder = Folder::new().with("model.py", text);
    let handler = folder.load("model.py").unwrap();
    Made { folder, handler }
}

/// Loads the body of an `execute(self, inputs)` as a handler; numpy, struct and `Tensor` are there.
pub(super) fn executes(body: &str) -> Made {
    let body: String = body
        .lines()
        .map(|line| format!("        {line}\n"))
        .collect();
    handler(&format!(
        "from pyovms import Tensor\nclass OvmsPythonModel:\n    def execute(self, inputs):\n{body}"
    ))
}

impl Made {
    pub(super) fn run(&self, inputs: &[HandlerTensor]) -> Result<Produced, Raised> {
        self.instance().execute(inputs, true)
    }

    pub(super) fn outputs(&self, inputs: &[HandlerTensor]) -> Vec<HandlerTensor> {
        outputs(self.run(inputs))
    }

    pub(super) fn fails(&self, inputs: &[HandlerTensor]) -> Raised {
        self.run(inputs).unwrap_err()
    }

    pub(super) fn instance(&self) -> HandlerInstance {
        let instance = self.handler.instance();
        instance.open().unwrap();
        instance
    }
}

pub(super) fn outputs(produced: Result<Produced, Raised>) -> Vec<HandlerTensor> {
    match produced {
        Ok(Produced::Outputs(outputs)) => outputs,
        other => panic!("expected outputs, got {other:?}"),
    }
}

/// Runs lines of asserts as an `execute`; they must raise nothing.
pub(super) fn asserts(inputs: &[HandlerTensor], body: &str) {
    let made = executes(&format!("{body}\nreturn []"));
    if let Err(raised) = made.run(inputs) {
        panic!("{raised}\n{}", raised.traceback);
    }
}

pub(super) fn floats(name: &str, shape: &[i64], values: &[f32]) -> HandlerTensor {
    let data: Vec<u8> = values
        .iter()
        .flat_map(|value| value.to_le_bytes())
        .collect();
    HandlerTensor::new(
        name,
        "FP32",
        shape.to_vec(),
        Bytes::from(data),
        Some(DataType::F32),
    )
}

pub(super) fn text(tensor: &HandlerTensor) -> &str {
    std::str::from_utf8(tensor.bytes()).unwrap()
}

/// Waits until the jobs queued for the thread of the interpreter are done.
pub(super) fn settle() {
    let (done, waits) = mpsc::channel();
    interpreter::later(move |_| done.send(()).unwrap());
    waits.recv_timeout(Duration::from_secs(60)).unwrap();
}

/// Waits until a handler has written a file, and returns its contents.
pub(super) fn awaited(path: &Path) -> String {
    for _ in 0..6000 {
        if let Ok(text) = fs::read_to_string(path)
            && !text.is_empty()
        {
            return text;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("{} was not written", path.display());
}
