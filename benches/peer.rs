//! Processes under measurement: start, wait, and stop.

use std::{
    ffi::{OsStr, OsString},
    io::{BufRead, BufReader, Write},
    net::TcpListener,
    path::Path,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    time::{Duration, Instant},
};

use ovms::client::{Address, Api, Client, ClientOptions};

use crate::{
    Model, PROPERTIES,
    graphs::Beyond,
    raw::{Loaded, Outcome, Span},
    raw_requests,
};

/// A serving process; killed on drop.
pub(crate) struct Peer {
    child: Child,
    port: u16,
    rest_port: u16,
}

impl Peer {
    /// Starts `ovms serve` with a model and waits until it is ready.
    pub(crate) fn ovms(model: &Model) -> Self {
        Self::ovms_with(model, &[])
    }

    /// Starts it with more flags.
    pub(crate) fn ovms_with(model: &Model, flags: &[&str]) -> Self {
        Self::ovms_on(model, &[], flags)
    }

    /// Starts it with more properties of the device, and more flags.
    pub(crate) fn ovms_on(model: &Model, properties: &[(&str, &str)], flags: &[&str]) -> Self {
        Self::ovms_by(program(), model, properties, flags)
    }

    /// Starts another server program in the same way.
    pub(crate) fn ovms_by(
        program: OsString,
        model: &Model,
        properties: &[(&str, &str)],
        flags: &[&str],
    ) -> Self {
        Self::spawn(serving(program, model, properties), flags)
    }

    /// Starts it with variables of the environment, and more flags.
    pub(crate) fn ovms_in(variables: &[(&str, &str)], model: &Model, flags: &[&str]) -> Self {
        let mut command = serving(program(), model, &[]);
        command.envs(variables.iter().copied());
        Self::spawn(command, flags)
    }

    /// Starts it with a configuration file.
    pub(crate) fn of_file(path: &Path, flags: &[&str]) -> Self {
        Self::of_file_by(program(), path, flags)
    }

    /// Starts it with a configuration file for errors that are meant, and that its log would be full of.
    pub(crate) fn of_file_unheard(path: &Path) -> Self {
        let mut command = Command::new(program());
        command.args(["serve", "--config_path"]).arg(path);
        command.stdout(Stdio::null());
        Self::spawn(command, &[])
    }

    /// Starts another server program with a configuration file.
    pub(crate) fn of_file_by(program: OsString, path: &Path, flags: &[&str]) -> Self {
        let mut command = Command::new(program);
        command.args(["serve", "--config_path"]).arg(path);
        Self::spawn(command, flags)
    }

    fn spawn(mut command: Command, flags: &[&str]) -> Self {
        let [port, rest_port] = free_ports();
        let child = command
            .args([
                "--port",
                &port.to_string(),
                "--rest_port",
                &rest_port.to_string(),
            ])
            .args([
                "--grpc_bind_address",
                "127.0.0.1",
                "--rest_bind_address",
                "127.0.0.1",
            ])
            .args(["--log_level", "WARNING"])
            .args(flags)
            .stdin(Stdio::null())
            .spawn()
            .expect("the server starts");
        Self {
            child,
            port,
            rest_port,
        }
        .ready()
    }

    /// Starts the echo service.
    pub(crate) fn echo() -> Self {
        Self::echo_with(&[])
    }

    /// Starts the echo service with a raw inference of a model for each request, of its contents.
    pub(crate) fn inferring_echo(library: &Path, model: &Model) -> Self {
        Self::echo_with(&[library.as_os_str(), model.path().as_os_str()])
    }

    /// Starts the same with inputs that are read from shared memory.
    pub(crate) fn reading_echo(library: &Path, model: &Model) -> Self {
        let model = model.path();
        let shared = OsStr::new("shared");
        Self::echo_with(&[library.as_os_str(), model.as_os_str(), shared])
    }

    /// Starts the echo service with a message to another process and back for each request.
    pub(crate) fn hopping_echo(beyond: Beyond) -> Self {
        let hop = OsStr::new("hop");
        match beyond {
            Beyond::Native => Self::echo_with(&[hop]),
            Beyond::Python => Self::echo_with(&[hop, OsStr::new("python")]),
        }
    }

    /// Starts the echo service with a value written to Redis, on a port of loopback, for each request.
    pub(crate) fn storing_echo(redis: u16) -> Self {
        Self::echo_with(&[OsStr::new("redis"), OsStr::new(&redis.to_string())])
    }

    fn echo_with(work: &[&OsStr]) -> Self {
        let [port] = free_ports();
        Self {
            child: bare("echo", port, work),
            port,
            rest_port: 0,
        }
        .ready()
    }

    /// Starts the bare service over HTTP/1.
    pub(crate) fn rest_echo() -> Self {
        Self::rest_echo_with(&[])
    }

    /// Starts the bare service over HTTP/1 with a raw inference of a model for each request.
    pub(crate) fn inferring_rest_echo(library: &Path, model: &Model) -> Self {
        Self::rest_echo_with(&[library.as_os_str(), model.path().as_os_str()])
    }

    fn rest_echo_with(work: &[&OsStr]) -> Self {
        let [rest_port] = free_ports();
        Self {
            child: bare("rest-echo", rest_port, work),
            port: 0,
            rest_port,
        }
        .ready_over(Api::KserveRest)
    }

    /// Returns its port for gRPC.
    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Returns its REST port.
    pub(crate) fn rest_port(&self) -> u16 {
        self.rest_port
    }

    /// Returns the process id.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Returns the client options for it.
    pub(crate) fn options(&self, api: Api, concurrency: usize) -> ClientOptions {
        let port = if api.is_grpc() {
            self.port
        } else {
            self.rest_port
        };
        ClientOptions {
            address: Address::parse(&format!("127.0.0.1:{port}"), api).expect("a valid address"),
            api,
            timeout: Duration::from_secs(60),
            headers: Default::default(),
            concurrency,
            tls: None,
        }
    }

    fn ready(self) -> Self {
        self.ready_over(Api::KserveGrpc)
    }

    fn ready_over(self, api: Api) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime");
        let options = self.options(api, 1);
        let started = Instant::now();
        loop {
            let ready = runtime.block_on(async {
                match Client::connect(&options).await {
                    Ok(client) => client.server_ready().await.unwrap_or(false),
                    Err(_) => false,
                }
            });
            if ready {
                return self;
            }
            assert!(
                started.elapsed() < Duration::from_secs(60),
                "not ready in a minute"
            );
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A process with raw OpenVINO that waits for commands; killed on drop.
pub(crate) struct Raw {
    child: Child,
    stdin: ChildStdin,
    lines: std::io::Lines<BufReader<ChildStdout>>,
    /// Resident memory after the load and one inference.
    pub(crate) loaded_mb: f64,
}

impl Raw {
    pub(crate) fn load(library: &Path, model: &Model, threads: usize) -> Self {
        Self::load_with(library, model, threads, &[])
    }

    /// Loads it with more properties of the device.
    pub(crate) fn load_with(
        library: &Path,
        model: &Model,
        threads: usize,
        properties: &[(&str, &str)],
    ) -> Self {
        let mut command = Command::new(std::env::current_exe().expect("a program has a path"));
        command.args(["--inner", "raw"]);
        command.arg(library).arg(model.path());
        command.arg(threads.to_string());
        let properties = properties.iter();
        command.args(properties.map(|(key, value)| format!("{key}={value}")));
        let mut raw = Self::spawn(command);
        raw.loaded_mb = raw.answer::<Loaded>().resident_mb;
        raw
    }

    /// Loads it for another shape of its one input, on one thread.
    pub(crate) fn load_shape(library: &Path, model: &Model, shape: &[usize]) -> Self {
        let lengths: Vec<String> = shape.iter().map(ToString::to_string).collect();
        let mut command = Command::new(std::env::current_exe().expect("a program has a path"));
        command.args(["--inner", "raw-shape"]);
        command
            .arg(library)
            .arg(model.path())
            .arg(lengths.join(","));
        let mut raw = Self::spawn(command);
        raw.loaded_mb = raw.answer::<Loaded>().resident_mb;
        raw
    }

    fn spawn(mut command: Command) -> Self {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("raw OpenVINO starts");
        let stdin = child.stdin.take().expect("stdin is piped");
        let stdout = child.stdout.take().expect("stdout is piped");
        Self {
            child,
            stdin,
            lines: BufReader::new(stdout).lines(),
            loaded_mb: 0.0,
        }
    }

    /// Runs inferences in the process, which is idle before and after.
    pub(crate) fn infer(&mut self, span: Span) -> Outcome {
        let mut line = serde_json::to_string(&span).expect("plain numbers");
        line.push('\n');
        self.stdin.write_all(line.as_bytes()).expect("it reads");
        self.answer()
    }

    fn answer<T: serde::de::DeserializeOwned>(&mut self) -> T {
        let line = self.lines.next().expect("it says something");
        serde_json::from_str(&line.expect("it is text")).expect("as it was written")
    }

    /// Starts a process that compiles a model as often as it is asked to.
    pub(crate) fn compiling(library: &Path, model: &Model) -> Self {
        let mut command = Command::new(std::env::current_exe().expect("a program has a path"));
        command.args(["--inner", "compile"]);
        command.arg(library).arg(model.path());
        let mut raw = Self::spawn(command);
        raw.answer::<f64>();
        raw
    }

    /// Compiles its model so many times, on all processors, and returns the seconds that it took.
    pub(crate) fn compile(&mut self, count: usize) -> f64 {
        writeln!(self.stdin, "{count}").expect("it reads");
        self.answer()
    }

    /// Creates infer requests that run once each, in a process of their own.
    pub(crate) fn requests(
        library: &Path,
        model: &Model,
        count: usize,
        lent: bool,
    ) -> raw_requests::Outcome {
        let output = Command::new(std::env::current_exe().expect("a program has a path"))
            .args(["--inner", "requests"])
            .arg(library)
            .arg(model.path())
            .arg(count.to_string())
            .arg(if lent { "lent" } else { "own" })
            .stdin(Stdio::null())
            .stderr(Stdio::inherit())
            .output()
            .expect("raw OpenVINO starts");
        assert!(output.status.success());
        serde_json::from_slice(&output.stdout).expect("an outcome")
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Starts this program as a bare service on a port.
fn bare(kind: &str, port: u16, work: &[&OsStr]) -> Child {
    Command::new(std::env::current_exe().expect("a program has a path"))
        .args(["--inner", kind, &port.to_string()])
        .args(work)
        .stdin(Stdio::null())
        .spawn()
        .expect("this program starts again")
}

/// Returns the command that serves a model.
fn serving(program: OsString, model: &Model, properties: &[(&str, &str)]) -> Command {
    let properties: serde_json::Map<String, serde_json::Value> = PROPERTIES
        .iter()
        .chain(properties)
        .map(|(key, value)| ((*key).to_owned(), (*value).into()))
        .collect();
    let mut command = Command::new(program);
    command
        .args(["serve", "--model_name", model.name, "--model_path"])
        .arg(model.path())
        .args([
            "--plugin_config",
            &serde_json::Value::Object(properties).to_string(),
        ]);
    command
}

/// Environment variable with the path of a server program to measure instead of this tree's.
const PROGRAM: &str = "BENCH_PROGRAM";

/// Returns the server program to measure.
pub(crate) fn program() -> OsString {
    std::env::var_os(PROGRAM).unwrap_or_else(|| env!("CARGO_BIN_EXE_ovms").into())
}

/// Returns whether the program to measure is not this tree's.
pub(crate) fn is_other() -> bool {
    std::env::var_os(PROGRAM).is_some()
}

/// Returns ports that are free, each another one.
pub(crate) fn free_ports<const N: usize>() -> [u16; N] {
    // Bound until all are found.
    let listeners = [(); N].map(|()| TcpListener::bind("127.0.0.1:0"));
    listeners.map(|listener| {
        let address = listener.and_then(|listener| listener.local_addr());
        address.expect("loopback has a free port").port()
    })
}
