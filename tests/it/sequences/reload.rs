//! Sequences during configuration reloads, and invalid configurations of stateful models.

use std::{path::PathBuf, sync::LazyLock};

use serde_json::{Value, json};
use tempfile::TempDir;

use super::shared::{self, serve_kept};
use crate::support::{
    Server, cli,
    http::{get, post},
    model, repository,
    sequence::{Ask, Client, Wire, entry, serve_file, wait_count, write},
    server::{free_ports, on},
};

const MODEL: &str = "running_total";
const ACTIVE: &str = r#"active{name="m",version="1"}"#;

fn ask(x: f32) -> Ask {
    Ask::new("m", x)
}

fn with(mut entry: Value, key: &str, value: impl Into<Value>) -> Value {
    entry[key] = value.into();
    entry
}

fn plain() -> Value {
    entry("m", MODEL)
}

/// A private configuration file.
struct File(TempDir);

impl File {
    fn of(models: &[Value]) -> Self {
        let file = Self(repository::folder());
        file.write(models);
        file
    }

    fn path(&self) -> PathBuf {
        self.0.path().join("config.json")
    }

    fn write(&self, models: &[Value]) {
        write(&self.path(), models);
    }
}

/// Requests a reload; returns its status.
fn reload(server: &Server) -> u16 {
    post(server, "/v1/config/reload", b"").status
}

/// Returns state, code and message of a model's first version.
fn status(server: &Server, name: &str) -> String {
    let status = get(server, &format!("/v1/models/{name}")).json();
    let status = &status["model_version_status"][0];
    let status = [
        &status["state"],
        &status["status"]["error_code"],
        &status["status"]["error_message"],
    ];
    status.map(|text| text.as_str().unwrap()).join(" ")
}

#[test]
fn models_of_sequences_are_reloaded() {
    let file = File::of(&[]);
    let server = serve_file(&file.path(), &["--metrics_enable"]);
    sequences_go_with_what_they_run_on_and_stay_if_nothing_of_it_changes(&server, &file);
    a_stateful_model_does_not_become_stateless_while_it_runs(&server, &file);
    another_mode_ends_sequences(&server, &file);
    a_model_that_comes_back_while_its_sequences_go_on_is_stateful_still(&server, &file);
}

fn sequences_go_with_what_they_run_on_and_stay_if_nothing_of_it_changes(
    server: &Server,
    file: &File,
) {
    let other = || entry("other", MODEL);
    file.write(&[plain(), other()]);
    assert_eq!(reload(server), 201);
    let client = Client::connect(server);
    let mut total = 1.0;
    client.total(Wire::Raw, &ask(1.0).id(5).start());
    client.total(Wire::Raw, &Ask::new("other", 1.0).id(5).start());
    let mut goes_on = |change: &str| {
        total += 1.0;
        assert_eq!(
            client.total(Wire::Json, &ask(1.0).id(5)),
            (5, total),
            "{change}"
        );
    };
    // Nothing, or nothing that a load depends on.
    assert_eq!(reload(server), 200);
    goes_on("nothing");
    file.write(&[with(plain(), "drain_sequences_seconds", 0), other()]);
    assert!(reload(server) < 300);
    goes_on("drain_sequences_seconds");
    file.write(&[
        with(plain(), "stateful", true),
        other(),
        entry("more", MODEL),
    ]);
    assert_eq!(reload(server), 201);
    goes_on("another model");
    // What is refused.
    file.write(&[with(plain(), "max_sequence_number", "many"), other()]);
    assert!(reload(server) >= 400);
    goes_on("an error");
    file.write(&[with(plain(), "base_path", json!(model("broken"))), other()]);
    assert!(reload(server) >= 400);
    goes_on("a model that does not load");

    let changes = [
        ("nireq", json!(1)),
        ("max_sequence_number", json!(7)),
        ("idle_sequence_cleanup", json!(false)),
        (
            "plugin_config",
            json!({"INFERENCE_PRECISION_HINT": "f32", "NUM_STREAMS": 1}),
        ),
        ("base_path", json!(model("running_from"))),
    ];
    for (key, value) in changes {
        file.write(&[with(plain(), key, value), other()]);
        assert_eq!(reload(server), 201, "{key}");
        for wire in Wire::ALL {
            assert_eq!(
                client.refused(wire, &ask(1.0).id(5)),
                wire.unknown(),
                "{key}"
            );
            assert_eq!(client.refused(wire, &ask(1.0).id(5).end()), wire.unknown());
        }
        let first = if key == "base_path" { 101.0 } else { 1.0 };
        assert_eq!(
            client.total(Wire::Raw, &ask(1.0).id(5).start()),
            (5, first),
            "{key}"
        );
    }
    // Removed, and there again.
    file.write(&[other()]);
    assert_eq!(reload(server), 201);
    wait_count(server, ACTIVE, 0);
    file.write(&[plain(), other()]);
    assert_eq!(reload(server), 201);
    assert_eq!(
        client.refused(Wire::Raw, &ask(1.0).id(5)),
        Wire::Raw.unknown()
    );
    // All of that was no matter of the other model.
    let other = client.total(Wire::Raw, &Ask::new("other", 1.0).id(5).end());
    assert_eq!(other, (5, 2.0));
}

fn a_stateful_model_does_not_become_stateless_while_it_runs(server: &Server, file: &File) {
    file.write(&[plain()]);
    assert!(reload(server) < 300);
    let client = Client::connect(server);
    client.total(Wire::Raw, &ask(1.0).id(5).start());
    file.write(&[with(with(plain(), "stateful", false), "nireq", 1)]);
    assert_eq!(reload(server), 500);
    insta::assert_snapshot!(status(server, "m"), @"AVAILABLE UNKNOWN Model type cannot be changed after it is loaded - `stateful` of model `m` was true; it goes on as before");
    assert_eq!(client.total(Wire::Raw, &ask(1.0).id(5)), (5, 2.0));
    file.write(&[plain()]);
    assert!(reload(server) < 300);
    assert_eq!(status(server, "m"), "AVAILABLE OK OK");
    assert_eq!(client.total(Wire::Raw, &ask(1.0).id(5).end()), (5, 3.0));
}

fn a_model_that_comes_back_while_its_sequences_go_on_is_stateful_still(
    server: &Server,
    file: &File,
) {
    let drained = || with(plain(), "drain_sequences_seconds", 600);
    file.write(&[drained()]);
    assert_eq!(reload(server), 201);
    let client = Client::connect(server);
    client.total(Wire::Raw, &ask(1.0).id(5).start());
    file.write(&[]);
    assert!(reload(server) < 300);
    file.write(&[with(plain(), "stateful", false)]);
    let refused = post(server, "/v1/config/reload", b"");
    let text = refused.text();
    assert!(
        refused.status == 500 && text.contains("Model type cannot be changed after it is loaded"),
        "{text}"
    );
    assert_eq!(client.total(Wire::Raw, &ask(1.0).id(5)), (5, 2.0));
    assert_eq!(client.total(Wire::Raw, &ask(1.0).id(5).end()), (5, 3.0));
    wait_count(server, ACTIVE, 0);
    assert!(reload(server) < 300, "nothing is left of it");
}

fn another_mode_ends_sequences(server: &Server, file: &File) {
    let in_mode = |mode: &str| with(entry("m", "running_from"), "state_mode", mode);
    file.write(&[in_mode("tensors")]);
    assert_eq!(reload(server), 201);
    let client = Client::connect(server);
    for mode in ["requests", "tensors"] {
        assert_eq!(client.total(Wire::Raw, &ask(1.0).id(3).start()), (3, 101.0));
        assert_eq!(client.total(Wire::Raw, &ask(1.0).id(3)), (3, 102.0));
        file.write(&[in_mode(mode)]);
        assert_eq!(reload(server), 201);
        let refused = client.refused(Wire::Raw, &ask(1.0).id(3));
        assert_eq!(refused, Wire::Raw.unknown());
    }
}

/// Returns entries that are refused, each with the text that says why.
fn refused() -> Vec<(Value, String)> {
    let stateless = |key: &str, value: Value| {
        let text = format!("Stateful model config parameter used for non stateful model - {key}");
        (with(with(plain(), "stateful", false), key, value), text)
    };
    let auto = |key: &str| {
        let text = "Dynamic shape and dynamic batch size are not supported for stateful models";
        (with(plain(), key, "auto"), text.to_owned())
    };
    let errors = vec![
        stateless("max_sequence_number", json!(5)),
        stateless("idle_sequence_cleanup", json!(true)),
        stateless("low_latency_transformation", json!(true)),
        stateless("drain_sequences_seconds", json!(5)),
        stateless("state_mode", json!("requests")),
        stateless("sequence_batch", json!(4)),
        (
            with(plain(), "max_sequence_number", 1_u64 << 32),
            "Sequence max number parameter too high".to_owned(),
        ),
        (
            with(plain(), "max_sequence_number", u64::MAX),
            "Sequence max number parameter too high".to_owned(),
        ),
        auto("shape"),
        auto("batch_size"),
    ];
    let named = |(index, (error, text))| (with(error, "name", format!("bad{index}")), text);
    errors.into_iter().enumerate().map(named).collect()
}

const DEVICES: [&str; 5] = ["AUTO", "AUTO:CPU", "HETERO:CPU", "MULTI:CPU", "CPU"];
const OTHERS: [&str; 5] = ["GPU", "NPU", "AUTO:GPU,CPU", "HETERO:CPU,GPU", "BATCH:CPU"];

/// Returns the name of a model on a device.
fn of_device(device: &str) -> String {
    device.replace([':', ','], "_")
}

/// A server with entries that are refused, and others that are not.
static MIXED: LazyLock<Server> = LazyLock::new(|| {
    let on = |device: &&str| {
        let entry = with(entry(&of_device(device), MODEL), "target_device", *device);
        with(entry, "nireq", 2)
    };
    let models = refused().into_iter().map(|(entry, _)| entry);
    let models = models.chain(DEVICES.iter().chain(&OTHERS).map(on));
    let models = models.chain([entry("good", MODEL), entry("stateless", "dummy")]);
    serve_kept(repository::folder(), &models.collect::<Vec<_>>(), &[])
});

#[test]
fn entries_that_do_not_suit_sequences_are_refused_and_others_serve() {
    let server = &*MIXED;
    let client = Client::connect(server);
    for (error, text) in refused() {
        let name = error["name"].as_str().unwrap();
        let path = format!("/v1/models/{name}");
        assert_eq!(get(server, &path).status, 404, "{error}");
        let refused = client.refused(Wire::Raw, &Ask::new(name, 1.0).id(5).start());
        assert_eq!(refused, "NotFound: Model with requested name is not found");
        let parts = ["ERROR", name, &text];
        let log = server.log();
        let is_it = |line: &str| parts.iter().all(|part| line.contains(part));
        assert!(log.lines().any(is_it), "{parts:?}\n{log}");
    }
    client.total(Wire::Raw, &Ask::new("good", 1.0).start());
}

#[test]
fn shapes_that_follow_the_request_are_refused_on_the_command_line() {
    for flags in [["--shape", "auto"], ["--batch_size", "auto"]] {
        let mut command = cli::command();
        command
            .args(["serve", "--stateful", "--model_name", "m", "--model_path"])
            .arg(model(MODEL))
            .args(on(free_ports()))
            .args(flags);
        let run = cli::run(&mut command);
        assert_eq!(run.code, Some(1), "{}", run.stderr);
        let text = "Dynamic shape and dynamic batch size are not supported for stateful models";
        assert!(run.stderr.contains(text), "{}", run.stderr);
    }
}

#[test]
fn sequences_run_on_the_cpu_alone() {
    let server = &*MIXED;
    let client = Client::connect(server);
    for device in DEVICES {
        let name = of_device(device);
        for round in 1..=20_u8 {
            for id in 1..=4 {
                let ask = Ask::new(&name, id as f32).id(id);
                let ask = if round == 1 { ask.start() } else { ask };
                let expected = f32::from(round) * id as f32;
                assert_eq!(client.total(Wire::Raw, &ask), (id, expected), "{device}");
            }
        }
    }
    for device in OTHERS {
        let state = status(server, &of_device(device));
        assert!(state.starts_with("LOADING UNKNOWN"), "{device}");
        server.wait_log(&format!(
            "Stateful models are supported only on CPU - found the device `{device}`"
        ));
    }
    client.total(Wire::Raw, &Ask::new("good", 1.0).start());
}

#[test]
fn a_model_without_state_is_served_with_a_warning() {
    let server = &*MIXED;
    let log = server.log();
    let is_warning = |line: &str| line.contains(" WARN ") && line.contains("stateless");
    assert!(log.lines().any(is_warning), "{log}");
    let client = Client::connect(server);
    for wire in Wire::ALL {
        let ask = || Ask {
            data: ("b", vec![1, 10], vec![1.0; 10]),
            ..Ask::new("stateless", 0.0)
        };
        let answer = client.send(wire, &ask().id(5).start()).unwrap();
        assert_eq!((answer.id, answer.values), (5, vec![2.0; 10]));
        client.send(wire, &ask().id(5).end()).unwrap();
        assert_eq!(client.refused(wire, &ask().id(5)), wire.unknown());
    }
}

#[test]
fn a_state_begins_with_its_initial_value() {
    let client = shared::connect();
    for wire in Wire::ALL {
        let ask = |x| Ask::new("running_from", x).id(5);
        for _ in 0..2 {
            assert_eq!(client.total(wire, &ask(1.0).start()), (5, 101.0));
            assert_eq!(client.total(wire, &ask(2.0)), (5, 103.0));
            assert_eq!(client.total(wire, &ask(3.0).end()), (5, 106.0));
        }
    }
}
