//! Handlers for tests, each in a folder of its own.

use std::{
    fs,
    os::fd::AsRawFd as _,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::python::{
    HandlerError, HandlerGenerator, HandlerInstance, HandlerLoad, HandlerLoadError, HandlerOutput,
    HandlerTensor, NodeFacts, Produced, PythonHandler, Raised, WorkerGroup, WorkerOptions,
    worker::WorkerSeat,
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

/// Loads a file as the handler of a node `node` with inputs `a`, `b` and outputs of these and other names.
pub(super) fn load(path: PathBuf) -> Result<Arc<PythonHandler>, HandlerLoadError> {
    load_into(&group(), path)
}

/// Makes workers with the packages of the tools.
pub(super) fn group() -> Arc<WorkerGroup> {
    group_of(WorkerOptions::default())
}

/// Makes such workers with options.
pub(super) fn group_of(options: WorkerOptions) -> Arc<WorkerGroup> {
    grouped(options, &HandlerLoad::default())
}

/// Makes such workers whose handlers belong to a load.
pub(super) fn grouped(options: WorkerOptions, load: &HandlerLoad) -> Arc<WorkerGroup> {
    use_environment();
    WorkerGroup::new("graph test".to_owned(), options, Arc::default(), load)
}

/// Loads a file into given workers.
pub(super) fn load_into(
    group: &Arc<WorkerGroup>,
    path: PathBuf,
) -> Result<Arc<PythonHandler>, HandlerLoadError> {
    load_giving(group, path, true)
}

/// Loads a file into given workers, whose outputs other nodes there get; alone, unless they have `contents`.
pub(super) fn load_giving(
    group: &Arc<WorkerGroup>,
    path: PathBuf,
    has_contents: bool,
) -> Result<Arc<PythonHandler>, HandlerLoadError> {
    let outputs = ["out", "a", "b", "c", "d"].map(|name| HandlerOutput {
        has_contents,
        has_object: true,
        ..HandlerOutput::outward(name)
    });
    PythonHandler::load(
        group,
        NodeFacts {
            node_name: "node".to_owned(),
            input_names: vec!["a".to_owned(), "b".to_owned()],
            outputs: outputs.to_vec(),
            handler_path: path,
            params: None,
        },
    )
}

/// An instance, whose calls block.
pub(super) struct Instance(HandlerInstance, tokio::runtime::Handle);

impl Instance {
    pub(super) fn new(handler: &Arc<PythonHandler>) -> Self {
        Self::at(handler, &handler.group().seat(false))
    }

    pub(super) fn at(handler: &Arc<PythonHandler>, seat: &Arc<WorkerSeat>) -> Self {
        let instance = handler.instance_at(seat);
        Self(instance, handler.group().runtime().clone())
    }

    /// Begins a call, which may be dropped.
    pub(super) async fn begun(&self, inputs: &[HandlerTensor]) -> Result<Produced, HandlerError> {
        self.0.execute(inputs, true, true, None).await
    }

    /// Begins a call that may give no generator, and may be dropped.
    pub(super) async fn asked(&self, inputs: &[HandlerTensor]) -> Result<Produced, HandlerError> {
        self.0.execute(inputs, true, false, None).await
    }

    /// Makes the state in a future, which may be dropped.
    pub(super) async fn opening(&self) -> Result<(), HandlerError> {
        self.0.open().await
    }

    pub(super) fn open(&self) -> Result<(), Raised> {
        self.1.block_on(self.0.open()).map_err(raised)
    }

    pub(super) fn execute(
        &self,
        inputs: &[HandlerTensor],
        complete: bool,
    ) -> Result<Produced, Raised> {
        self.called(inputs, complete).map_err(raised)
    }

    pub(super) fn called(
        &self,
        inputs: &[HandlerTensor],
        complete: bool,
    ) -> Result<Produced, HandlerError> {
        let call = self.0.execute(inputs, complete, true, None);
        self.1.block_on(call)
    }

    pub(super) fn next(
        &self,
        generator: &mut HandlerGenerator,
    ) -> Result<Option<Vec<HandlerTensor>>, Raised> {
        self.1.block_on(self.0.next(generator)).map_err(raised)
    }

    /// Closes it in a future, which may be dropped.
    pub(super) async fn closing(&self) {
        self.0.close().await;
    }

    pub(super) fn close(&self) {
        self.1.block_on(self.0.close());
    }
}

fn raised(error: HandlerError) -> Raised {
    match error {
        HandlerError::Raised(raised) => raised,
        other => panic!("{other}"),
    }
}

/// Selects the packages of the environment with the tools, if there is one.
pub(super) fn use_environment() {
    let tools = Path::new(env!("WORKSPACE_ROOT")).join(".venv");
    let tools = std::env::var_os("OPENVINO_INSTALL_DIR").map_or(tools, PathBuf::from);
    crate::python::configure(None, Some(tools));
}

/// Handler made of a text.
pub(crate) struct Made {
    pub(super) folder: Folder,
    pub(crate) handler: Arc<PythonHandler>,
}

/// Loads a text as a handler.
pub(crate) fn handler(text: &str) -> Made {
    let folder = Folder::new().with("model.py", text);
    let handler = folder.load("model.py").unwrap();
    Made { folder, handler }
}

/// Loads the body of an `execute(self, inputs)` as a handler; `Tensor` is there.
pub(super) fn executes(body: &str) -> Made {
    executes_in(&group(), body)
}

/// Loads such a body into given workers.
pub(super) fn executes_in(workers: &Arc<WorkerGroup>, body: &str) -> Made {
    let body: String = body
        .lines()
        .map(|line| format!("        {line}\n"))
        .collect();
    let folder = Folder::new().with(
        "model.py",
        &format!(
            "from pyovms import Tensor\nclass OvmsPythonModel:\n    def execute(self, inputs):\n{body}"
        ),
    );
    let handler = load_into(workers, folder.file("model.py")).unwrap();
    Made { folder, handler }
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

    pub(super) fn instance(&self) -> Instance {
        let instance = Instance::new(&self.handler);
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
    HandlerTensor::new(name, "FP32", shape.to_vec(), Bytes::from(data), true)
}

pub(super) fn text(tensor: &HandlerTensor) -> &str {
    std::str::from_utf8(tensor.bytes()).unwrap()
}

/// Waits for what ends within a minute if it ends at all.
pub(super) async fn in_time<T>(work: impl Future<Output = T>) -> T {
    let limit = Duration::from_secs(60);
    tokio::time::timeout(limit, work).await.unwrap()
}

/// Waits, for a minute at most, until something is so.
pub(super) async fn until(is_so: impl Fn() -> bool) {
    in_time(async {
        while !is_so() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
}

/// Drops a call that does not end as soon as something is so.
pub(super) async fn left<T>(call: impl Future<Output = T>, is_so: impl Fn() -> bool) {
    tokio::select! {
        _ = call => panic!("it ends when it may"),
        () = until(is_so) => {}
    }
}

/// Runs a test alone in a process of its own, where it may set limits of the process; returns whether this is that process.
pub(super) fn is_apart(test: &str) -> bool {
    const APART: &str = "OVMS_TEST_APART";
    if std::env::var_os(APART).is_some_and(|name| name == test) {
        return true;
    }
    let program = std::env::current_exe().unwrap();
    let mut command = std::process::Command::new(program);
    command
        .args(["--exact", &format!("python::tests::{test}")])
        .env(APART, test);
    let ran = command.output().unwrap();
    let said = String::from_utf8_lossy(&ran.stdout);
    assert!(ran.status.success(), "{said}");
    assert!(said.contains("1 passed"), "{said}");
    false
}

/// Takes the right to more descriptors from this process, until the limit that is returned is set again.
pub(super) fn without_descriptors() -> Rlimit {
    let limit = getrlimit(Resource::Nofile);
    let next = fs::File::open("/dev/null").unwrap().as_raw_fd();
    let current = u64::try_from(next).ok();
    setrlimit(Resource::Nofile, Rlimit { current, ..limit }).unwrap();
    limit
}

/// Gives the right to more descriptors back.
pub(super) fn with_descriptors(limit: Rlimit) {
    setrlimit(Resource::Nofile, limit).unwrap();
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
