//! States saved to files and restored: what goes on from a file is as if it had never stopped.

use std::{
    fs,
    io::{BufRead as _, BufReader, Write as _},
    thread,
};

use ovms::{
    model::Snapshot,
    tensor::{DataType, Tensor},
};
use serde_json::json;

use super::{
    shared,
    state_modes::{FIXTURES, ask},
    store,
};
use crate::support::{
    Server, fixture,
    http::{self, get},
    infer::{REST, TFS_REST, command, infer, read_npy, write_npy},
    repository,
    sequence::{Ask, Client, Wire, entry, serve_file, write},
    steps::{ended, is_gone, spawn},
};

fn path(model: &str, id: u64) -> String {
    format!("/v1/models/{model}/sequences/{id}")
}

fn save(server: &Server, model: &str, id: u64) -> Vec<u8> {
    let answer = get(server, &path(model, id));
    assert_eq!(answer.status, 200);
    let kind = answer.header("content-type");
    assert_eq!(kind, Some("application/octet-stream"));
    answer.body
}

fn restore(server: &Server, model: &str, id: u64, file: &[u8]) -> http::Answer {
    http::send(server, "PUT", &path(model, id), &[], file)
}

fn begin(server: &Server, model: &str, id: u64, file: &[u8]) {
    let answer = restore(server, model, id, file);
    assert_eq!((answer.status, answer.text().as_str()), (201, ""));
}

/// Returns the reason why a file is refused.
fn refusal(server: &Server, model: &str, file: &[u8]) -> String {
    let error = restore(server, model, 9, file).error();
    let text = error.strip_prefix("400: State of the sequence cannot be restored - ");
    text.unwrap_or_else(|| panic!("{error}")).to_owned()
}

fn read(file: &[u8]) -> Snapshot {
    Snapshot::decode(&file.to_vec().into()).unwrap()
}

#[test]
fn speech_goes_on_behind_a_restart_as_if_there_had_been_none() {
    let folder = repository::folder();
    let file = |name: &str| folder.path().join(name).display().to_string();
    let (dtype, shape, data) =
        read_npy(fs::read(fixture("sequences/vad_frames.npy")).unwrap()).into_parts();
    let step = data.len() / shape[0];
    let part = |name: &str, steps: std::ops::Range<usize>| {
        let mut shape = shape.clone();
        shape[0] = steps.len();
        let part = data.slice(steps.start * step..steps.end * step);
        let path = file(name);
        write_npy(path.as_ref(), &Tensor::new(dtype, shape, part).unwrap());
        format!("audio=@{path}")
    };
    let (whole, first, rest) = (
        part("whole.npy", 0..shape[0]),
        part("first.npy", 0..70),
        part("rest.npy", 70..shape[0]),
    );
    let states = [REST, TFS_REST].map(|api| (api, file(api)));
    let speech = |server: &Server, api, input: &str, more: &[&str]| {
        let args = [
            &[
                "vad_stateful",
                "-i",
                input,
                "--sequence",
                "--sequence-id=17",
            ],
            &["--output", "npy"][..],
            more,
        ];
        let run = infer(server, api, &args.concat());
        assert_eq!(run.code, Some(0), "{api}: {}", run.stderr);
        read_npy(run.stdout).data().to_vec()
    };
    let server = shared::server();
    let begun = states.each_ref().map(|(api, state)| {
        let expected = speech(server, api, &whole, &[]);
        let found = speech(server, api, &first, &["--save-state", state]);
        is_gone(server, "vad_stateful", "17");
        (expected, found)
    });
    // Another process, as behind a restart.
    let server = store::shared::file("step");
    for ((api, state), (expected, mut found)) in states.iter().zip(begun) {
        found.extend(speech(server, api, &rest, &["--load-state", state]));
        assert_eq!(found, expected, "{api}");
        is_gone(server, "vad_stateful", "17");
    }
}

#[test]
fn a_state_that_cannot_be_saved_is_refused_before_a_step_is_sent() {
    let folder = repository::folder();
    let file = folder.path().join("state");
    let file = file.to_str().unwrap();
    let server = shared::server();
    let client = Client::connect(server);
    let ask = Ask::new("saved_requests", 1.0).id(5);
    client.total(Wire::Raw, &ask.clone().start());
    let live = || get(server, "/v1/models/saved_requests/sequences").json();
    let before = live();
    let kept = before["sequences"][0]["steps"].clone();
    let ways: [&[&str]; 4] = [
        &["--sequence"],
        &["--start"],
        &["--sequence", "--continue", "--sequence-id=5"],
        &["--continue", "--sequence-id=5"],
    ];
    for way in ways {
        let args = [
            &["saved_requests", "-i=x=[[1,1,1,1]]", "--save-state", file],
            way,
        ];
        let run = infer(server, REST, &args.concat());
        let expected = format!(
            "exit 1\nerror: cannot save {file}: the server refused the request: 412 Precondition Failed: State of the sequence \
             cannot be saved or restored - state_mode of the model is requests\nhint: leave `state_mode` out of its \
             configuration, or set it to `tensors`; if its log says why it has to be `requests`, states of this model \
             cannot be saved\nhint: no step was sent"
        );
        assert_eq!(run.failure().trim_end(), expected, "{way:?}");
        let now = live();
        assert_eq!(
            (&now["total"], &now["sequences"][0]["steps"]),
            (&json!(1), &kept)
        );
    }
    assert_eq!(client.total(Wire::Raw, &ask), (5, 2.0), "it is alive");
}

#[test]
fn a_sequence_whose_state_cannot_be_written_stays_open() {
    let folder = repository::folder();
    let place = folder.path().join("states");
    fs::create_dir(&place).unwrap();
    let file = place.join("state");
    let server = shared::server();
    let args = [
        "saved_unwritten",
        "-i=-",
        "--sequence",
        "--sequence-id=7",
        "--each",
    ];
    let mut child = spawn(
        command(server, REST)
            .args(args)
            .arg("--save-state")
            .arg(&file),
    );
    child
        .stdin
        .as_mut()
        .unwrap()
        .write_all(b"[1,1,1,1]\n")
        .unwrap();
    let mut first = String::new();
    let mut answers = BufReader::new(child.stdout.take().unwrap());
    answers.read_line(&mut first).unwrap();
    // The state is still there, and may be saved elsewhere.
    fs::remove_dir(&place).unwrap();
    drop(child.stdin.take());
    let run = ended(child);
    assert_ne!(run.code, Some(0), "{}", run.stderr);
    let open = "hint: sequence 7 is open: continue it with `--sequence --continue --sequence-id 7`, or end it with";
    assert!(run.stderr.contains(open), "{}", run.stderr);
    save(server, "saved_unwritten", 7);
}

#[test]
fn every_variable_comes_back_bit_for_bit() {
    let server = shared::server();
    let client = Client::connect(server);
    let mut kinds = Vec::new();
    for (fixture, ..) in FIXTURES {
        let send = |id: u64, step: u8| {
            // Both are sent the same.
            let mut ask = ask(fixture.to_owned(), fixture, 7, step).id(id);
            ask = if step == 1 { ask.start() } else { ask };
            let answer = client.send(Wire::Raw, &ask).unwrap();
            answer
                .values
                .iter()
                .map(|value| value.to_bits())
                .collect::<Vec<_>>()
        };
        for step in 1..=3 {
            send(7, step);
        }
        let file = save(server, fixture, 7);
        begin(server, fixture, 8, &file);
        for step in 4..=5 {
            assert_eq!(send(7, step), send(8, step), "{fixture}");
        }
        let saved = read(&file);
        assert_eq!(
            (saved.sequence, &*saved.model, saved.version),
            (7, fixture, 1)
        );
        kinds.extend(saved.tensors.iter().map(|(_, tensor)| tensor.dtype()));
        assert_eq!(
            read(&save(server, fixture, 8)).tensors,
            read(&save(server, fixture, 7)).tensors
        );
    }
    for kind in [DataType::F16, DataType::I32, DataType::Bool] {
        assert!(kinds.contains(&kind), "{kinds:?}");
    }
}

#[test]
fn a_file_of_another_model_is_refused_with_what_differs() {
    let versions = repository::of(&[("1", "running_total"), ("2", "running_total")]);
    let others = repository::of(&[("1", "running_total")]);
    let weights = others.path().join("1/model.xml");
    let text = fs::read_to_string(&weights).unwrap();
    fs::write(&weights, format!("{text}\n")).unwrap();
    let folder = repository::folder();
    let config = folder.path().join("config.json");
    let write_models = |root: &std::path::Path| {
        let mut first = entry("m", "running_total");
        first["base_path"] = json!(root);
        first["model_version_policy"] = json!({"all": {}});
        write(&config, &[first, entry("n", "running_total")]);
    };
    write_models(versions.path());
    let server = serve_file(&config, &[]);
    let client = Client::connect(&server);
    let start = Ask::new("m", 1.0).version(1).id(7).start();
    assert_eq!(client.total(Wire::Raw, &start), (7, 1.0));
    let of_a_version = "/v1/models/m/versions/1/sequences/";
    let file = get(&server, &format!("{of_a_version}7")).body;
    assert_eq!(refusal(&server, "n", &file), "model is m; expected n");
    assert_eq!(refusal(&server, "m", &file), "version is 1; expected 2");
    let saved = read(&file);
    let (name, tensor) = saved.tensors.first().unwrap();
    let tensors = |list: &[(&str, &Tensor)]| {
        let tensors = list
            .iter()
            .map(|&(name, tensor)| (name.to_owned(), tensor.clone()));
        let other = Snapshot {
            model: "n".to_owned(),
            tensors: tensors.collect(),
            ..saved.clone()
        };
        refusal(&server, "n", &other.encode().unwrap())
    };
    let long = Tensor::new(DataType::F32, vec![1, 5], vec![0; 20].into()).unwrap();
    let whole = Tensor::new(DataType::I32, vec![1, 4], vec![0; 16].into()).unwrap();
    let expected = format!("variable `{name}` is FP32 (1,5); expected FP32 (1,4)");
    assert_eq!(tensors(&[(name, &long)]), expected);
    let expected = format!("variable `{name}` is INT32 (1,4); expected FP32 (1,4)");
    assert_eq!(tensors(&[(name, &whole)]), expected);
    let expected = format!("variable `{name}` is missing; expected FP32 (1,4)");
    assert_eq!(tensors(&[("other", tensor)]), expected);
    let expected = "the model has no variable `other`";
    assert_eq!(tensors(&[(name, tensor), ("other", tensor)]), expected);
    assert!(refusal(&server, "m", &file[..file.len() - 1]).starts_with("no complete safetensors"));
    let mut changed = file.clone();
    *changed.last_mut().unwrap() ^= 1;
    assert!(refusal(&server, "m", &changed).ends_with("the file has changed"));
    let answer = http::send(&server, "PUT", &format!("{of_a_version}9"), &[], &file);
    assert_eq!(answer.status, 201);

    write_models(others.path());
    assert_eq!(http::post(&server, "/v1/config/reload", b"").status, 201);
    let refused = refusal(&server, "m", &file);
    assert!(
        refused.starts_with("digest of the model's files is "),
        "{refused}"
    );
}

#[test]
fn the_rules_of_starts_hold_for_files() {
    let server = shared::server();
    let client = Client::connect(server);
    let ask = |id| Ask::new("rules", 1.0).id(id);
    client.total(Wire::Raw, &ask(1).start());
    let file = save(server, "rules", 1);
    let error = |id| restore(server, "rules", id, &file).error();
    assert_eq!(error(1), "409: Sequence with provided ID already exists");
    begin(server, "rules", 2, &file);
    assert_eq!(
        error(3),
        "503: Max sequence number has been reached. Could not create new sequence."
    );
    let unknown = "404: Sequence with provided ID does not exist";
    assert_eq!(get(server, &path("rules", 3)).error(), unknown);
    assert_eq!(client.total(Wire::Raw, &ask(2).end()), (2, 2.0));
    assert_eq!(get(server, &path("rules", 2)).error(), unknown);
    let unknown = "404: Model with requested name is not found";
    assert_eq!(get(server, &path("nothing", 1)).error(), unknown);
    // Only the answer to another method names those that there are.
    for (method, status) in [
        ("PUT", 201),
        ("DELETE", 204),
        ("DELETE", 404),
        ("POST", 405),
    ] {
        let body = if method == "PUT" { &file[..] } else { b"" };
        let answer = http::send(server, method, &path("rules", 2), &[], body);
        let allow = (status == 405).then_some("GET, HEAD, PUT, DELETE, OPTIONS");
        assert_eq!((answer.status, answer.header("allow")), (status, allow));
    }
    let answer = http::send(server, "PATCH", &path("rules", 1), &[], b"");
    assert_eq!(answer.status, 405);
    assert_eq!(
        answer.header("allow"),
        Some("GET, HEAD, PUT, DELETE, OPTIONS")
    );

    let start = Ask::new("rules_requests", 1.0).id(1).start();
    client.total(Wire::Raw, &start);
    let requests = "412: State of the sequence cannot be saved or restored - state_mode of the model is requests";
    assert_eq!(get(server, &path("rules_requests", 1)).error(), requests);
    assert_eq!(
        restore(server, "rules_requests", 2, &file).error(),
        requests
    );
    let plain = "412: Model has no sequences - it is served without `stateful`";
    let server = Server::shared("dummy");
    assert_eq!(restore(server, "dummy", 2, &file).error(), plain);
}

#[test]
fn a_file_is_of_between_two_steps_of_many() {
    const STEPS: u16 = 200;
    const MODEL: &str = "saved_between";
    let server = shared::server();
    let client = Client::connect(server);
    let ask = || Ask::new(MODEL, 1.0).id(7);
    client.total(Wire::Raw, &ask().start());
    let files = thread::scope(|scope| {
        let steps = scope.spawn(|| {
            let client = Client::connect(server);
            for step in 2..=STEPS {
                assert_eq!(client.total(Wire::Raw, &ask()), (7, f32::from(step)));
            }
        });
        let mut files = Vec::new();
        while !steps.is_finished() {
            files.push(save(server, MODEL, 7));
        }
        steps.join().unwrap();
        files
    });
    let mut before = 1.0;
    for (file, id) in files.iter().zip(8..500) {
        begin(server, MODEL, id, file);
        let (_, total) = client.total(Wire::Raw, &ask().id(id));
        // One step behind the file, which is not older than the one before.
        assert!(total > before && total.fract() == 0.0, "{total} {before}");
        before = total - 1.0;
    }
    assert!(!files.is_empty() && before <= f32::from(STEPS));
}
