//! The model `busy`: inferences of controllable duration.

use std::{
    process::Command,
    sync::{LazyLock, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use ovms::proto::kserve::{ModelInferRequest, ModelInferResponse};
use tonic::Status;

use super::{
    Server, cli, eventually,
    grpc::{self, Call, Grpc, to_floats},
    model,
    pipelines::Config,
    server::{free_ports, on},
    shared_memory,
};

/// Number of steps that take a processor core 1 to 3 seconds.
pub(crate) const SECONDS: i64 = 200_000;

/// Number of steps that take minutes; no test waits for their end.
pub(crate) const ENDLESS: i64 = 20_000_000;

/// Plugin configuration with one thread per inference; two would wait for each other.
pub(crate) const PLUGIN_CONFIG: &str =
    r#"{"INFERENCE_PRECISION_HINT":"f32","INFERENCE_NUM_THREADS":1}"#;

/// Length of a row and of a column.
const SIZE: usize = 64;

/// Serves `busy` with more flags; unless they say so, with one slot.
pub(crate) fn serve(flags: &[&str]) -> Server {
    let mut all = flags.to_vec();
    for default in [["--plugin_config", PLUGIN_CONFIG], ["--nireq", "1"]] {
        if !flags.contains(&default[0]) {
            all.extend(default);
        }
    }
    Server::start_with("busy", &all)
}

/// Returns a server of `busy` with one slot that takes regions of shared memory, for a test that leaves no inference
/// without end: one has it at a time, and nothing runs there when it does.
pub(crate) fn shared() -> MutexGuard<'static, Server> {
    static SHARED: LazyLock<Mutex<Server>> =
        LazyLock::new(|| Mutex::new(serve(&shared_memory::ON).kept(None)));
    idle(&SHARED)
}

/// Returns one in the same way on which no request waits, and which has the model with two slots as `two_slots`, too.
pub(crate) fn without_queue() -> MutexGuard<'static, Server> {
    static SHARED: LazyLock<Mutex<Server>> = LazyLock::new(|| {
        // Without a stream for each slot the plugin itself runs one after the other.
        let two = r#"{"INFERENCE_PRECISION_HINT":"f32","NUM_STREAMS":2,"INFERENCE_NUM_THREADS":2}"#;
        let mut config = Config::of(&[]);
        for (name, slots, plugin) in [("busy", 1, PLUGIN_CONFIG), ("two_slots", 2, two)] {
            let entry = config.model(name, &model("busy"));
            entry["nireq"] = slots.into();
            entry["plugin_config"] = plugin.parse().expect("it is JSON");
        }
        Mutex::new(config.serve_kept(&["--max_queued_requests", "0"]))
    });
    idle(&SHARED)
}

/// Waits until nobody has a server, and its one slot is free.
fn idle(server: &'static Mutex<Server>) -> MutexGuard<'static, Server> {
    let server = server.lock().unwrap_or_else(PoisonError::into_inner);
    let grpc = Grpc::connect(&server);
    eventually("the slot is free", || grpc.infer(request(1)).ok());
    server
}

/// Serves it with one slot, started through another program that execs it.
pub(crate) fn through(program: &[&str]) -> Server {
    let (ports, served) = (free_ports(), cli::command());
    let mut command = Command::new(program[0]);
    command
        .args(&program[1..])
        .arg(served.get_program())
        .args(["serve", "--model_name", "busy", "--model_path"])
        .arg(model("busy"))
        .args(["--plugin_config", PLUGIN_CONFIG, "--nireq", "1"])
        .args(on(ports));
    let server = Server::spawn(&mut command, ports);
    server.wait_ready();
    server
}

/// Makes the request for a number of steps.
pub(crate) fn request(steps: i64) -> ModelInferRequest {
    let rows: Vec<f32> = (0..SIZE * SIZE).map(|index| row(index / SIZE)).collect();
    ModelInferRequest {
        model_name: "busy".to_owned(),
        inputs: vec![
            grpc::input("steps", "INT64", &[1]),
            grpc::input("x", "FP32", &[64, 64]),
        ],
        raw_input_contents: vec![
            steps.to_le_bytes().to_vec().into(),
            grpc::floats(&rows).into(),
        ],
        ..ModelInferRequest::default()
    }
}

/// Makes the REST body for a number of steps, and the value of its header.
pub(crate) fn body(steps: i64) -> (String, Vec<u8>) {
    let json = r#"{"inputs":[{"name":"steps","shape":[1],"datatype":"INT64"},
        {"name":"x","shape":[64,64],"datatype":"FP32"}]}"#;
    let mut body = json.as_bytes().to_vec();
    for contents in request(steps).raw_input_contents {
        body.extend_from_slice(&contents);
    }
    (json.len().to_string(), body)
}

/// Checks the response for a number of steps: the rows rotated down.
pub(crate) fn check(steps: i64, answer: &Result<ModelInferResponse, Status>) {
    let answer = answer.as_ref().expect("the request is answered");
    let steps = usize::try_from(steps).expect("tests ask for positive numbers") % SIZE;
    let output = to_floats(&answer.raw_output_contents[0]);
    for (index, line) in output.chunks_exact(SIZE).enumerate() {
        let expected = row((index + SIZE - steps) % SIZE);
        assert!(line.iter().all(|&value| value == expected), "row {index}");
    }
}

/// Starts a request and waits until the server is running it.
pub(crate) fn running<'a>(server: &Server, client: &'a Grpc, steps: i64) -> Call<'a> {
    let before = server.processor_time();
    let call = client.call(request(steps));
    wait_running(server, before);
    call
}

/// Waits until the server has used processor time since `before`.
pub(crate) fn wait_running(server: &Server, before: Duration) {
    const ENOUGH: Duration = Duration::from_millis(100);
    eventually("the inference runs", || {
        (server.processor_time() > before + ENOUGH).then_some(())
    });
}

#[expect(clippy::cast_precision_loss, reason = "there are 64 rows")]
fn row(index: usize) -> f32 {
    index as f32
}
