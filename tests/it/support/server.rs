//! A private server of a test: the real program on free ports.

use std::{
    io::{BufRead, BufReader, Read},
    net::TcpListener,
    path::Path,
    process::{Child, Command, ExitStatus, Stdio},
    sync::{
        Arc, LazyLock, Mutex,
        atomic::{AtomicU16, Ordering},
    },
    thread::JoinHandle,
    time::Duration,
};

use tempfile::TempDir;

use super::{cli, eventually, model, pipelines::Config, thread};

/// Plugin configuration that keeps f32 on processors that would compute in bf16.
const PLUGIN_CONFIG: &str = r#"{"INFERENCE_PRECISION_HINT":"f32"}"#;

/// Fixture models besides `dummy` that tests share.
const SHARED: [&str; 25] = [
    "add",
    "classifier",
    "fullsize",
    "image_any",
    "image_fixed",
    "image_range",
    "noname",
    "passthrough_bf16",
    "passthrough_boolean",
    "passthrough_f16",
    "passthrough_f32",
    "passthrough_f64",
    "passthrough_i16",
    "passthrough_i32",
    "passthrough_i64",
    "passthrough_i8",
    "passthrough_string",
    "passthrough_u16",
    "passthrough_u32",
    "passthrough_u64",
    "passthrough_u8",
    "running_total",
    "scalar",
    "text",
    "two_outputs",
];

/// A running server; killed on drop.
pub(crate) struct Server {
    child: Child,
    pub(crate) port: u16,
    pub(crate) rest_port: u16,
    log: Arc<Mutex<Vec<String>>>,
    readers: Vec<JoinHandle<()>>,
    /// Ends a server that is kept.
    guard: Option<Child>,
}

impl Server {
    /// Serves a fixture model and waits until it is ready.
    pub(crate) fn start(name: &str) -> Self {
        Self::start_with(name, &[])
    }

    /// Returns the server of a fixture model for all tests that do not change it, do not read its log, and
    /// do not fill it: one of `dummy` alone, or that of all others. It ends with this process.
    pub(crate) fn shared(name: &str) -> &'static Self {
        static DUMMY: LazyLock<Server> = LazyLock::new(|| Server::start("dummy").kept(None));
        static OTHERS: LazyLock<Server> = LazyLock::new(|| Config::of(&SHARED).serve_kept(&[]));
        if name == "dummy" {
            return &DUMMY;
        }
        assert!(
            SHARED.contains(&name),
            "{name} is not among the shared ones"
        );
        &OTHERS
    }

    /// Keeps a server, and a folder of its own, until this process ends: for a `static` of a module whose tests share it.
    pub(crate) fn kept(mut self, folder: Option<TempDir>) -> Self {
        let folder = folder.map(TempDir::keep).unwrap_or_default();
        self.guard = Some(end_with_tests(self.id(), &folder));
        self
    }

    /// Serves a fixture model with more flags and waits until it is ready.
    pub(crate) fn start_with(name: &str, flags: &[&str]) -> Self {
        Self::start_in(&[], name, flags)
    }

    /// Starts one with variables in its environment.
    pub(crate) fn start_in(variables: &[(&str, &str)], name: &str, flags: &[&str]) -> Self {
        let server = Self::begin_in(variables, name, &model(name), flags);
        server.wait_ready();
        server
    }

    /// Starts a server and does not wait.
    pub(crate) fn begin(name: &str, path: &Path, flags: &[&str]) -> Self {
        Self::begin_in(&[], name, path, flags)
    }

    fn begin_in(variables: &[(&str, &str)], name: &str, path: &Path, flags: &[&str]) -> Self {
        let ports = free_ports();
        let mut command = cli::command();
        command
            .args(["serve", "--model_name", name])
            .arg("--model_path")
            .arg(path);
        if !flags.contains(&"--plugin_config") {
            command.args(["--plugin_config", PLUGIN_CONFIG]);
        }
        command.args(on(ports)).args(flags);
        command.envs(variables.iter().copied());
        Self::spawn(&mut command, ports)
    }

    /// Serves a configuration file with more flags, and does not wait.
    pub(crate) fn of_file(path: &Path, flags: &[&str]) -> Self {
        let ports = free_ports();
        let mut command = cli::command();
        command.args(["serve", "--config_path"]).arg(path);
        command.args(on(ports)).args(flags);
        Self::spawn(&mut command, ports)
    }

    /// Starts a server by a command that names the ports itself, and does not wait.
    pub(crate) fn spawn(command: &mut Command, (port, rest_port): (u16, u16)) -> Self {
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let log = Arc::new(Mutex::new(Vec::new()));
        let stdout = child.stdout.take().expect("stdout is piped");
        let stderr = child.stderr.take().expect("stderr is piped");
        let readers = vec![
            collect(stdout, "", Arc::clone(&log)),
            collect(stderr, "stderr: ", Arc::clone(&log)),
        ];
        Self {
            child,
            port,
            rest_port,
            log,
            readers,
            guard: None,
        }
    }

    /// Waits until the log says that the server is ready.
    pub(crate) fn wait_ready(&self) {
        self.wait_log(" ready");
    }

    /// Waits for a line of the log that contains a text, and returns it.
    pub(crate) fn wait_log(&self, text: &str) -> String {
        eventually(&format!("`{text}` in the log of the server"), || {
            // Asked first: what has ended writes no more.
            let ended = self.readers.iter().all(JoinHandle::is_finished);
            let lines = self.log.lock().unwrap();
            let found = lines.iter().find(|line| line.contains(text)).cloned();
            drop(lines);
            assert!(
                found.is_some() || !ended,
                "the server has ended without `{text}`"
            );
            found
        })
    }

    /// Returns the log so far, with lines of stderr marked.
    pub(crate) fn log(&self) -> String {
        self.log.lock().unwrap().join("\n")
    }

    /// Returns the lines of the log so far about a model.
    pub(crate) fn log_of(&self, model: &str) -> Vec<String> {
        let of = format!("model=\"{model}\"");
        let lines = self.log.lock().unwrap();
        let lines = lines.iter().filter(|line| line.contains(&of));
        lines.cloned().collect()
    }

    /// Waits for a line about a model that contains a text, and returns it.
    pub(crate) fn wait_log_of(&self, model: &str, text: &str) -> String {
        eventually(&format!("`{text}` of {model}"), || {
            let mut lines = self.log_of(model).into_iter();
            lines.find(|line| line.contains(text))
        })
    }

    /// Sends a signal.
    pub(crate) fn signal(&self, name: &str) {
        let sent = Command::new("kill")
            .args(["-s", name, &self.child.id().to_string()])
            .status()
            .expect("kill is there");
        assert!(sent.success());
    }

    /// Waits for the end.
    pub(crate) fn wait(&mut self) -> ExitStatus {
        eventually("the end of the server", || self.ended())
    }

    /// Returns the id of the process.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Returns the exit status if the server has ended.
    pub(crate) fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().expect("it is our child")
    }

    /// Returns the processor time of the process so far.
    ///
    /// An inference of the model `busy` uses processor time throughout, which shows it is running.
    pub(crate) fn processor_time(&self) -> Duration {
        processor_time(&self.child)
    }
}

/// Starts the guard of a process, which kills it when this one ends, however it does, and removes its folder: the
/// guard's stdin is closed then.
pub(crate) fn end_with_tests(process: u32, folder: &Path) -> Child {
    const WAIT: &str = r#"cat > /dev/null; kill -9 "$1"; [ -z "$2" ] || rm -rf -- "$2""#;
    Command::new("sh")
        .args(["-c", WAIT, "sh", &process.to_string()])
        .arg(folder)
        .stdin(Stdio::piped())
        .spawn()
        .expect("sh is there")
}

impl Drop for Server {
    fn drop(&mut self) {
        // Fails if the process has ended, which is as well.
        let _ = self.child.kill();
        let _ = self.child.wait();
        for reader in self.readers.drain(..) {
            let _ = reader.join();
        }
        if std::thread::panicking() {
            eprintln!("log of the server:\n{}", self.log());
        }
    }
}

/// Reads a field of a server's status, in bytes.
pub(crate) fn memory(server: &Server, field: &str) -> usize {
    let path = format!("/proc/{}/status", server.id());
    let status = std::fs::read_to_string(path).expect("the process is there");
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix(field))
        .expect("Linux reports it");
    let kibibytes = line.trim().trim_end_matches(" kB").parse::<usize>();
    kibibytes.expect("a number") << 10
}

/// Returns the processor time of a process so far.
pub(crate) fn processor_time(child: &Child) -> Duration {
    // Linux counts in hundredths of a second (proc(5), fields 14 and 15), whatever its clock.
    const TICK: Duration = Duration::from_millis(10);
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", child.id()))
        .expect("the process is there");
    let after_name = stat.rsplit(')').next().unwrap_or_default();
    let fields: Vec<u32> = after_name
        .split_whitespace()
        .map(|field| field.parse().unwrap_or(0))
        .collect();
    TICK * (fields[11] + fields[12])
}

fn collect(
    source: impl Read + Send + 'static,
    mark: &'static str,
    log: Arc<Mutex<Vec<String>>>,
) -> JoinHandle<()> {
    thread(move || {
        for line in BufReader::new(source).lines().map_while(Result::ok) {
            log.lock().unwrap().push(format!("{mark}{line}"));
        }
    })
}

/// Returns the flags for two ports on the loopback address.
pub(crate) fn on((port, rest_port): (u16, u16)) -> [String; 4] {
    [
        format!("--port={port}"),
        format!("--rest_port={rest_port}"),
        "--grpc_bind_address=127.0.0.1".to_owned(),
        "--rest_bind_address=127.0.0.1".to_owned(),
    ]
}

/// Returns two free ports, unique among the tests.
///
/// They are below the ephemeral range of the system, so that no outgoing connection takes one
/// before the server does.
pub(crate) fn free_ports() -> (u16, u16) {
    const FIRST: u16 = 12_000;
    const COUNT: u16 = 20_000;
    static NEXT: AtomicU16 = AtomicU16::new(0);
    // Two runs of the tests at a time have neighbouring ids; they start far from each other.
    let start = std::process::id().wrapping_mul(7919) % u32::from(COUNT);
    let start = u16::try_from(start).expect("it is below COUNT");
    let free = || loop {
        let step = NEXT.fetch_add(1, Ordering::Relaxed);
        let port = FIRST + (start + step) % COUNT;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    };
    (free(), free())
}
