//! Limits of dynamic batching: memory, models that are not fit for it, requests that fail, and what clients see of it.

use std::fs;

use ovms::proto::kserve::ModelInferRequest;
use serde_json::{Value, json};

use super::batching::{SERVER, config, outputs, row, serve, serve_with, sizes, statistics};
use crate::support::{
    Server, cli, eventually,
    grpc::{self, Call, Grpc},
    http::get,
    infer, model,
    pipelines::{Config, request},
    server::memory,
};

/// Makes a request to `bag` or `slow_bag`.
fn ids(name: &str, ids: [i64; 2]) -> ModelInferRequest {
    let data: Vec<u8> = ids.iter().flat_map(|id| id.to_le_bytes()).collect();
    grpc::raw(name, "ids", "INT64", &[1, 2], &data)
}

/// Returns what metadata say of a model's batches.
fn shortfall(server: &Server, name: &str) -> Value {
    get(server, &format!("/v2/models/{name}")).json()["properties"]["dynamic_batching"].clone()
}

/// Returns the peak memory of a server in MiB.
fn peak(server: &Server) -> usize {
    let status = fs::read_to_string(format!("/proc/{}/status", server.id())).unwrap();
    let line = status.lines().find_map(|it| it.strip_prefix("VmHWM:"));
    let kibibytes = line.unwrap().trim().strip_suffix(" kB").unwrap();
    kibibytes.parse::<usize>().unwrap() >> 10
}

#[test]
fn a_request_that_fails_alone_fails_in_a_batch_each_time_and_alone() {
    let grpc = Grpc::connect(&SERVER);
    let ids = |asked| ids("bag", asked);
    for round in 0..6 {
        // The bad ones are the same each time, and two of a batch in every other one.
        let asked = [[1, 7], [8, 0], [0, 0], [[8, 0], [2, 3]][round % 2]];
        let calls = asked.map(|asked| (asked, grpc.call(ids(asked))));
        for (asked, call) in calls {
            match call.wait() {
                Err(error) if asked == [8, 0] => {
                    let error = grpc::error(&error);
                    assert!(error.contains("invalid embedding bag index: 8"), "{error}");
                }
                answer => {
                    let [one, other] = asked.map(|id| f32::from(i8::try_from(id).unwrap()));
                    assert_eq!(outputs(answer)[0], 4.0 * (one + other), "{asked:?}");
                }
            }
        }
    }
    assert_eq!(
        sizes(&grpc, "bag"),
        [(1, 15)],
        "those of failed batches run alone"
    );
    let calls = [[1, 7], [0, 0], [2, 3], [4, 4]].map(|asked| grpc.call(ids(asked)));
    assert_eq!(
        calls.map(|call| outputs(call.wait())[0]),
        [32.0, 0.0, 20.0, 32.0]
    );
    assert_eq!(sizes(&grpc, "bag"), [(1, 15), (4, 1)], "batches go on");
}

#[test]
fn requests_whose_clients_leave_do_not_end_batches() {
    let grpc = Grpc::connect(&SERVER);
    let ask = |asked| grpc.call(ids("slow_bag", asked));
    let good = [[1, 7], [2, 3]];
    let answered = |calls: [Call<'_>; 2]| calls.map(|call| outputs(call.wait())[0]);
    assert_eq!(answered(good.map(ask)), [32.0, 20.0]);
    assert_eq!(sizes(&grpc, "slow_bag"), [(2, 1)]);
    // A batch runs for a tenth of a second, in which the client of one leaves that makes it fail, or both do.
    let (bad, other) = (ask([8, 0]), ask([1, 7]));
    grpc.round_trip();
    drop(bad);
    assert_eq!(outputs(other.wait())[0], 32.0, "it runs alone");
    let bad = [[8, 0], [0, 8]].map(ask);
    grpc.round_trip();
    drop(bad);
    assert_eq!(answered(good.map(ask)), [32.0, 20.0]);
    assert_eq!(sizes(&grpc, "slow_bag"), [(1, 1), (2, 2)]);
    let log = SERVER.log();
    assert_eq!(shortfall(&SERVER, "slow_bag"), Value::Null, "{log}");
}

#[test]
fn a_batch_has_one_infer_request() {
    let metrics = [
        "--metrics_enable",
        "--metrics_list",
        "ovms_infer_req_active",
    ];
    let batching = r#"{"max_batch":2,"max_delay_us":1000000}"#;
    let server = serve_with("slow_bag", batching, &metrics);
    let grpc = Grpc::connect(&server);
    let sample = r#"ovms_infer_req_active{name="slow_bag",version="1"} "#;
    let active = || {
        let page = get(&server, "/metrics").text();
        let line = page.lines().find_map(|line| line.strip_prefix(sample));
        line.unwrap().parse::<u32>().unwrap()
    };
    let calls = [[1, 7], [2, 3]].map(|asked| grpc.call(ids("slow_bag", asked)));
    let mut most = 0;
    eventually("they have run", || {
        most = most.max(active());
        (statistics(&grpc, "slow_bag").execution_count > 0).then_some(())
    });
    assert_eq!(calls.map(|call| outputs(call.wait())[0]), [32.0, 20.0]);
    assert_eq!(sizes(&grpc, "slow_bag"), [(2, 1)]);
    assert_eq!(most, 1);
}

#[test]
fn requests_of_a_batch_are_not_in_the_queue() {
    let batching = r#"{"max_batch":2,"max_delay_us":0}"#;
    let server = serve_with("slow_bag", batching, &["--max_queued_requests", "2"]);
    let grpc = Grpc::connect(&server);
    let ask = |asked| grpc.call(ids("slow_bag", asked));
    let runs = || statistics(&grpc, "slow_bag").execution_count;
    // One runs, two wait, and then these two run as one batch: two others may wait.
    let calls = [[1, 7], [2, 3], [0, 0]].map(|asked| {
        let call = ask(asked);
        grpc.round_trip();
        call
    });
    eventually("the first has run", || (runs() == 1).then_some(()));
    let others = [[4, 4], [0, 0]].map(ask);
    assert_eq!(calls.map(|call| outputs(call.wait())[0]), [32.0, 20.0, 0.0]);
    assert_eq!(others.map(|call| outputs(call.wait())[0]), [32.0, 0.0]);
}

#[test]
fn inferences_that_fail_leave_nothing_in_memory() {
    // The message of each takes a third of a kilobyte of the runtime's memory, and a kilobyte in a batch.
    const FAILURES: usize = 4000;
    let server = serve("bag", r#"{"max_batch":2,"max_delay_us":100}"#);
    let grpc = Grpc::connect(&server);
    let fail = |count: usize| {
        for _ in 0..count / 8 {
            let calls: Vec<_> = (0..8).map(|_| grpc.call(ids("bag", [8, 0]))).collect();
            for call in calls {
                call.wait().unwrap_err();
            }
        }
    };
    fail(FAILURES / 4);
    let before = memory(&server, "RssAnon:");
    fail(FAILURES);
    let more = memory(&server, "RssAnon:").saturating_sub(before);
    assert!(more < 1 << 20, "{more} bytes after {FAILURES} failures");
}

#[test]
fn models_that_mix_rows_or_whose_shapes_depend_on_values_are_refused() {
    let grpc = Grpc::connect(&SERVER);
    for (name, reason) in [
        ("centered", "a batch gives "),
        ("centered_auto", "a batch gives "),
        ("picky", "shapes within the model depend on values"),
        ("picky_auto", "shapes within the model depend on values"),
    ] {
        let line = SERVER.wait_log_of(name, "dynamic_batching is off: ");
        assert!(line.contains(reason), "{name}: {line}");
        let text = shortfall(&SERVER, name);
        let text = text.as_str().unwrap();
        assert!(text.starts_with("off: ") && text.contains(reason), "{text}");
        let config = config(&grpc, name);
        assert_eq!((config.max_batch_size, config.dynamic_batching), (0, None));
        assert_eq!(config.output[0].dims, [-1, 4], "no row, but all of it");
    }
    let line = SERVER.wait_log_of("centered_auto", "dynamic_batching is off: ");
    assert!(line.contains(" where a request alone gives 0"), "{line}");
    let both = request(
        "centered_auto",
        &[("x", &[2, 4], &[0.0, 0.0, 0.0, 0.0, 2.0, 2.0, 2.0, 2.0])],
    );
    let alone = request("centered_auto", &[("x", &[1, 4], &[5.0; 4])]);
    let calls = [both, alone].map(|asked| grpc.call(asked));
    let [both, alone] = calls.map(|call| outputs(call.wait()));
    assert_eq!((&both[..4], &both[4..]), (&[-1.0; 4][..], &[1.0; 4][..]));
    assert_eq!(alone, [0.0; 4]);
}

#[test]
fn sizes_beyond_the_limit_of_memory_are_not_kept() {
    // Tensors of a row have 588 KiB, and there are four infer requests: of 64 rows, 147 MiB.
    let flags = [
        "--nireq",
        "4",
        "--plugin_config",
        r#"{"INFERENCE_PRECISION_HINT":"f32"}"#,
    ];
    let batching = r#"{"max_batch":1024,"max_bytes":"400M"}"#;
    let server = Server::start_with(
        "fullsize",
        &[&flags[..], &["--dynamic_batching", batching]].concat(),
    );
    let line = server.wait_log("no batches of more than 64 rows: ");
    let reason = "batches of 256 rows take about 588.0 MiB beside ";
    let limit = " of smaller ones, and max_bytes of dynamic_batching is 400.0 MiB";
    assert!(line.contains(reason), "{line}");
    let grpc = Grpc::connect(&server);
    let batching = config(&grpc, "fullsize").dynamic_batching.unwrap();
    assert_eq!(batching.preferred_batch_size, [64]);
    let text = shortfall(&server, "fullsize");
    let text = text.as_str().unwrap();
    assert!(
        text.starts_with(&format!("up to 64 rows: {reason}")) && text.ends_with(limit),
        "{text}"
    );
    let pixels = vec![1.0; 3 * 224 * 224];
    let calls: Vec<_> = (0..24)
        .map(|_| {
            grpc.call(request(
                "fullsize",
                &[("image", &[1, 3, 224, 224], &pixels)],
            ))
        })
        .collect();
    for call in calls {
        assert_eq!(outputs(call.wait()), [1.0; 3]);
    }
    let peak = peak(&server);
    assert!(peak < 900, "{peak} MiB");
}

#[test]
fn rows_that_are_larger_than_there_is_memory_for_run_alone() {
    const NAME: &str = "large_rows";
    let grpc = Grpc::connect(&SERVER);
    let ask = |count: usize, width: usize| {
        let rows = (0..count).map(|number| vec![f32::from(u8::try_from(number).unwrap()); width]);
        let rows: Vec<_> = rows.collect();
        let calls: Vec<_> = rows
            .iter()
            .map(|values| grpc.call(row(NAME, values)))
            .collect();
        for (call, values) in calls.into_iter().zip(&rows) {
            assert!(outputs(call.wait()) == *values);
        }
    };
    // Sixteen rows take 8 MiB, with as much for outputs, and four a quarter of that.
    ask(16, 1 << 16);
    assert_eq!(sizes(&grpc, NAME), [(1, 16)]);
    SERVER.wait_log_of(NAME, "requests of 16 rows run one by one: ");
    ask(16, 1 << 8);
    assert_eq!(sizes(&grpc, NAME), [(1, 16), (16, 1)]);
    let text = shortfall(&SERVER, NAME);
    assert_eq!(text, Value::Null, "{}", SERVER.log());
}

#[test]
fn the_replacement_of_a_model_measures_nothing_again() {
    let server = serve("pair", "auto");
    let grpc = Grpc::connect(&server);
    let ask = |columns: i64| {
        let data = |count: i64| vec![0; 8 * usize::try_from(count).unwrap()].into();
        let mut asked = grpc::raw("pair", "a", "INT64", &[1, 2], &[0; 16]);
        asked.inputs.push(grpc::input("b", "INT64", &[1, columns]));
        asked.raw_input_contents.push(data(columns));
        grpc.infer(asked)
    };
    for _ in 0..2 {
        ask(3).unwrap_err();
        ask(2).unwrap();
    }
    let log = server.log();
    let count = |text: &str| log.matches(text).count();
    let loads = count("dynamic_batching is off: ") + count(" rows run as one inference");
    assert!(loads > 1, "it was replaced: {log}");
    assert_eq!(count("measuring batches of "), 1, "{log}");
}

#[test]
fn a_limit_that_no_size_keeps_turns_batches_off() {
    let of_model = "and max_bytes of dynamic_batching is 1.0 MiB";
    let is_off = |server: &Server, name: &str, reason: &str| {
        let line = server.wait_log_of(name, "dynamic_batching is off: ");
        assert!(
            line.contains("batches of 2 rows take about ") && line.contains(reason),
            "{line}"
        );
        assert!(line.contains(" WARN "), "{line}");
        let text = shortfall(server, name);
        assert!(text.as_str().unwrap().contains(reason), "{text}");
    };
    is_off(&SERVER, "small", of_model);
    is_off(&SERVER, "small_auto", of_model);
    let mut file = Config::of(&[]);
    for (name, batching) in [
        ("auto", json!("auto")),
        ("large", json!({"max_batch": 8, "max_bytes": "1G"})),
    ] {
        file.model(name, &model("perceptron"))["dynamic_batching"] = batching;
    }
    let server = file.serve_with(&["--max_bytes_in_flight", "4M"]);
    is_off(
        &server,
        "auto",
        "and those of one model may take 1.0 MiB, a quarter of --max-bytes-in-flight",
    );
    is_off(
        &server,
        "large",
        "and batches of all models may take 2.0 MiB, half of --max-bytes-in-flight",
    );
}

#[test]
fn batches_give_their_memory_back_with_the_model() {
    let mut file = Config::of(&["perceptron"]);
    // Two loads of it fit, and three do not.
    let entry = &mut file.json["model_config_list"][0]["config"];
    entry["dynamic_batching"] = json!({"max_batch": 2});
    entry["nireq"] = json!(1);
    let server = file.serve_with(&["--max_bytes_in_flight", "500M"]);
    let grpc = Grpc::connect(&server);
    for nireq in [2, 1, 2, 1, 2] {
        file.json["model_config_list"][0]["config"]["nireq"] = json!(nireq);
        assert_eq!(file.reload(&server), "201");
        let batching = config(&grpc, "perceptron").dynamic_batching;
        assert_eq!(
            batching.unwrap().preferred_batch_size,
            [2],
            "{}",
            server.log()
        );
    }
}

#[test]
fn a_request_may_have_as_many_rows_as_its_model_takes() {
    let grpc = Grpc::connect(&SERVER);
    for (name, most) in [
        ("of_parts", 1),
        ("most_of_any", 4),
        ("most_of_six", 6),
        ("most_of_image", 4),
    ] {
        let config = config(&grpc, name);
        assert_eq!(config.max_batch_size, most, "{name}");
        assert_eq!(config.dynamic_batching.unwrap().preferred_batch_size, [4]);
        assert_eq!(shortfall(&SERVER, name), Value::Null);
    }
}

#[test]
fn batches_that_are_turned_off_later_are_no_more_in_the_configuration() {
    let grpc = Grpc::connect(&SERVER);
    let before = config(&grpc, "unpadded");
    assert_eq!(
        (before.max_batch_size, &before.input[0].dims[..]),
        (1, &[4][..])
    );
    let ask = |number: f32| request("unpadded", &[("x", &[1, 4], &[number; 4])]);
    // Two rows of four: the others are zero, with which it fails.
    let calls = [1.0, 2.0].map(|number| grpc.call(ask(number)));
    assert_eq!(
        calls.map(|call| outputs(call.wait())),
        [[125.0; 4], [126.0; 4]]
    );
    let reason = "a batch of 2 rows failed although each of its requests runs alone";
    SERVER.wait_log(reason);
    let after = config(&grpc, "unpadded");
    assert_eq!((after.max_batch_size, after.dynamic_batching), (0, None));
    assert_eq!(after.input[0].dims, [1, 4]);
    let json = get(&SERVER, "/v2/models/unpadded/config").json();
    assert_eq!(
        (&json["max_batch_size"], &json["dynamic_batching"]),
        (&json!(0), &Value::Null)
    );
    let text = shortfall(&SERVER, "unpadded");
    assert!(
        text.as_str()
            .unwrap()
            .starts_with(&format!("off: {reason}: ")),
        "{text}"
    );
    let run = infer::infer(&SERVER, infer::GRPC, &["unpadded", "--metadata"]);
    assert!(
        run.stderr
            .contains(&format!("dynamic_batching is off: {reason}: ")),
        "{}",
        run.stderr
    );
    assert!(
        !run.stderr.contains("Queued requests run in batches"),
        "{}",
        run.stderr
    );
}

#[test]
fn the_time_of_answers_is_measured_for_each_size() {
    let grpc = Grpc::connect(&SERVER);
    let row = |value: f32| row("timed", &[value]);
    for _ in 0..3 {
        let calls = [grpc.call(row(1.0)), grpc.call(row(2.0))];
        assert_eq!(calls.map(|call| outputs(call.wait())), [[1.0], [2.0]]);
    }
    assert_eq!(outputs(grpc.infer(row(3.0))), [3.0]);
    let found = statistics(&grpc, "timed");
    let of_sizes = found
        .batch_stats
        .iter()
        .map(|it| (it.batch_size, it.compute_output.unwrap()));
    let of_sizes: Vec<_> = of_sizes.collect();
    assert_eq!(
        of_sizes
            .iter()
            .map(|(size, it)| (*size, it.count))
            .collect::<Vec<_>>(),
        [(1, 1), (2, 3)]
    );
    assert!(of_sizes.iter().all(|(_, it)| it.ns > 0), "{of_sizes:?}");
    let all = found.inference_stats.unwrap().compute_output.unwrap();
    assert_eq!(of_sizes.iter().map(|(_, it)| it.ns).sum::<u64>(), all.ns);
}

#[test]
fn printed_configurations_have_the_limit() {
    let path = model("dummy");
    let flags = [
        "serve",
        "--print-config",
        "--model_name",
        "m",
        "--model_path",
        path.to_str().unwrap(),
    ];
    let batching = r#"{"max_batch":"auto","max_bytes":"512M"}"#;
    let run = cli::ovms([&flags[..], &["--dynamic_batching", batching]].concat());
    let printed: Value = serde_json::from_slice(&run.stdout).expect(&run.stderr);
    let found = &printed["model_config_list"][0]["config"]["dynamic_batching"];
    assert_eq!(*found, json!({"max_batch": "auto", "max_bytes": "512M"}));
}
