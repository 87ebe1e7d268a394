//! Python nodes during configuration reloads: their objects, their states, and their ends.

use std::fs;

use serde_json::{Value, json};

use crate::support::{
    Server, cli, eventually,
    graphs::reload,
    grpc::Grpc,
    pipelines::{Config, custom, dl, infer, lines, status, ten, wait_lines},
};

/// A handler whose behaviour is set by the params of its node.
const STEPS: &str = include_str!("../support/steps_python.py");

/// Creates a file with the model `dummy` and the library `py`, a handler beside the file.
fn config() -> Config {
    let mut config = Config::of(&["dummy"]);
    let path = config.beside("steps.py");
    fs::write(&path, STEPS).unwrap();
    config.library_at("py", &path);
    config
}

/// Writes a Python node that multiplies.
fn scale(name: &str, by: &str, inputs: &str, outputs: &str) -> Value {
    let params = json!({"do": "scale", "by": by});
    custom(name, "py", &params, inputs, outputs)
}

#[test]
fn a_dry_run_without_inputs_finalizes_its_nodes() {
    let mut config = config();
    let nodes = [scale("n", "2", "in=request.x", "out=o")];
    config.pipeline("p", "x", &nodes, "y=n.o");
    let path = config.write();
    let log = config.beside("log");
    for (inputs, code) in [
        (&[][..], 64),
        (&["--zeros"], 64),
        (&["-i", "x:FP32=[1]"], 0),
    ] {
        let mut command = cli::command();
        let run = cli::run(command.args(["pipeline", "run"]).arg(&path).args(inputs));
        assert_eq!(run.code, Some(code), "{inputs:?}: {}", run.stderr);
        assert_eq!(
            lines(&log, "initialize").len(),
            1,
            "{inputs:?}: {}",
            run.stderr
        );
        assert_eq!(lines(&log, "finalize").len(), 1, "{inputs:?}");
        fs::remove_file(&log).unwrap();
    }
}

/// Stops the server, so that its handlers end.
fn stopped(mut server: Server) {
    server.signal("TERM");
    assert!(server.wait().success());
}

#[test]
fn changed_code_takes_effect_when_somebody_asks_and_if_it_loads() {
    let mut config = config();
    let nodes = [scale("n", "2", "in=request.x", "out=o")];
    config.pipeline("p", "x", &nodes, "y=n.o");
    let model = [nodes[0].clone(), dl("m", "dummy", "b=n.o", "a=o")];
    config.pipeline("q", "x", &model, "y=m.o");
    let server = config.serve();
    let client = Grpc::connect(&server);
    let log = config.beside("log");
    assert_eq!(infer(&client, ten("p", 1.0)), "y [1,10] 2");
    assert_eq!(reload(&server), 200);
    assert_eq!(lines(&log, "initialize").len(), 2, "nothing has changed");

    // Code that does not load any more leaves what serves.
    fs::write(config.beside("steps.py"), "this is no Python\n").unwrap();
    assert_eq!(reload(&server), 412);
    assert_eq!(status(&server, "p"), "AVAILABLE UNKNOWN");
    assert_eq!(infer(&client, ten("p", 1.0)), "y [1,10] 2");
    assert_eq!(infer(&client, ten("q", 1.0)), "y [1,10] 3");
    // Another model does not bring the handler that is broken into the one that serves.
    config.json["model_config_list"][0]["config"]["nireq"] = 3.into();
    config.reload(&server);
    assert_eq!(status(&server, "q"), "AVAILABLE UNKNOWN");
    assert_eq!(infer(&client, ten("q", 1.0)), "y [1,10] 3");
    fs::write(config.beside("steps.py"), STEPS).unwrap();
    assert_eq!(reload(&server), 201);
    assert_eq!(status(&server, "p"), "AVAILABLE OK");
    assert_eq!(infer(&client, ten("p", 1.0)), "y [1,10] 2");
    wait_lines(&log, "finalize n", 1);

    let made = lines(&log, "initialize").len();
    // A module beside it counts as well.
    let changed = STEPS.replace("factor * it", "more(factor * it)");
    let changed = changed.replace("import os\n", "import os\nfrom helper import more\n");
    fs::write(config.beside("helper.py"), "more = lambda it: it + 100\n").unwrap();
    fs::write(config.beside("steps.py"), changed).unwrap();
    assert_eq!(infer(&client, ten("p", 1.0)), "y [1,10] 2");
    assert_eq!(reload(&server), 201, "another handler is a change");
    assert_eq!(infer(&client, ten("p", 1.0)), "y [1,10] 102");
    assert_eq!(infer(&client, ten("q", 1.0)), "y [1,10] 103");
    wait_lines(&log, "finalize n", made);
    fs::write(config.beside("helper.py"), "more = lambda it: it + 200\n").unwrap();
    reload(&server);
    assert_eq!(infer(&client, ten("p", 1.0)), "y [1,10] 202");
    wait_lines(&log, "finalize n", made + 2);
    stopped(server);
    assert_eq!(lines(&log, "initialize").len(), made + 4);
    assert_eq!(lines(&log, "finalize").len(), made + 4);
}

#[test]
fn a_handler_that_is_saved_is_noticed() {
    let mut config = config();
    let nodes = [scale("n", "2", "in=request.x", "out=o")];
    config.pipeline("p", "x", &nodes, "y=n.o");
    let server = config.serve_with(&["--file_system_poll_wait_seconds", "1"]);
    let client = Grpc::connect(&server);
    let gives = |text: &str| {
        eventually("the new one answers", || {
            (infer(&client, ten("p", 1.0)) == text).then_some(())
        });
    };
    gives("y [1,10] 2");
    let changed = STEPS.replace("factor * it", "more(factor * it)");
    let changed = changed.replace("import os\n", "import os\nfrom helper import more\n");
    fs::write(config.beside("helper.py"), "more = lambda it: it + 100\n").unwrap();
    fs::write(config.beside("steps.py"), &changed).unwrap();
    gives("y [1,10] 102");
    fs::write(config.beside("helper.py"), "more = lambda it: it + 200\n").unwrap();
    gives("y [1,10] 202");
    // One that breaks takes nothing away, and is fixed the same way.
    fs::write(config.beside("steps.py"), "raise ValueError('half')\n").unwrap();
    server.wait_log("ValueError: half");
    eventually("it is reported", || {
        (status(&server, "p") == "AVAILABLE UNKNOWN").then_some(())
    });
    gives("y [1,10] 202");
    fs::write(config.beside("steps.py"), STEPS).unwrap();
    gives("y [1,10] 2");
    assert_eq!(status(&server, "p"), "AVAILABLE OK");
    // Neither is one that is gone for a while, as in the hands of an editor.
    fs::remove_file(config.beside("steps.py")).unwrap();
    server.wait_log("No such file or directory");
    gives("y [1,10] 2");
    let other = STEPS.replace("factor * it", "factor * it + 1");
    fs::write(config.beside("steps.py"), &other).unwrap();
    gives("y [1,10] 3");
    // One that is written again as it is loads nothing.
    let log = config.beside("log");
    let loads = lines(&log, "initialize").len();
    fs::write(config.beside("steps.py"), &other).unwrap();
    assert_eq!(reload(&server), 200);
    stopped(server);
    assert_eq!(lines(&log, "initialize").len(), loads);
}

#[test]
fn an_import_that_hangs_delays_no_other_pipeline() {
    let mut config = config();
    fs::write(config.beside("other.py"), STEPS).unwrap();
    config.library_at("other", &config.beside("other.py"));
    let nodes = [scale("n", "2", "in=request.x", "out=o")];
    config.pipeline("p", "x", &nodes, "y=n.o");
    let by = json!({"do": "scale", "by": "2"});
    let nodes = [custom("n", "other", &by, "in=request.x", "out=o")];
    config.pipeline("q", "x", &nodes, "y=n.o");
    let mut server = config.serve_with(&["--file_system_poll_wait_seconds", "1"]);
    let client = Grpc::connect(&server);
    fs::write(config.beside("steps.py"), "import time\ntime.sleep(1000)\n").unwrap();
    server.wait_log("the load of the handler has not ended for 5 s");
    let gives = |name: &str, text: &str| {
        eventually("the new one answers", || {
            (infer(&client, ten(name, 1.0)) == text).then_some(())
        });
    };
    gives("p", "y [1,10] 2");
    let other = STEPS.replace("factor * it", "factor * it + 1");
    fs::write(config.beside("other.py"), &other).unwrap();
    gives("q", "y [1,10] 3");
    // One that hangs is left for what is saved next.
    fs::write(config.beside("steps.py"), &other).unwrap();
    gives("p", "y [1,10] 3");
    server.wait_log("Python worker was killed: another load has taken its place");
    fs::write(config.beside("steps.py"), "import time\ntime.sleep(1000)\n").unwrap();
    eventually("the fourth one that was saved is looked at", || {
        let log = server.log();
        let looks = log.matches("changed to: AVAILABLE_REQUIRED_REVALIDATION");
        (looks.count() >= 4).then_some(())
    });
    server.signal("TERM");
    assert!(server.wait().success());
}

#[test]
fn objects_are_kept_while_nodes_stay_and_finalized_after_the_last_request() {
    let mut config = config();
    let nodes = [
        scale("one", "2", "in=request.x", "out=o"),
        scale("other", "3", "in=one.o", "out=o"),
    ];
    config.pipeline("p", "x", &nodes, "y=other.o");
    let kept = [scale("kept", "2", "in=request.x", "out=o")];
    config.pipeline("q", "x", &kept, "y=kept.o");
    let waits = custom(
        "waits",
        "py",
        &json!({"do": "wait"}),
        "in=request.x",
        "out=o",
    );
    config.pipeline("w", "x", &[waits], "y=waits.o");
    let server = config.serve();
    let client = Grpc::connect(&server);
    let log = config.beside("log");
    config.json["pipeline_config_list"][0]["nodes"][1]["params"]["by"] = "5".into();
    assert_eq!(config.reload(&server), "201");
    assert_eq!(infer(&client, ten("p", 1.0)), "y [1,10] 10");
    // Those of one pipeline share a worker, which is another one now.
    for name in ["one", "other"] {
        wait_lines(&log, &format!("finalize {name}"), 1);
        assert_eq!(lines(&log, &format!("initialize {name}")).len(), 2);
    }
    // What is no business of its nodes.
    config.json["pipeline_config_list"][1]["empty_results"] = "allow".into();
    assert_eq!(config.reload(&server), "201");
    assert_eq!(lines(&log, "initialize kept").len(), 1);
    config.remove("pipeline_config_list", "p");
    assert_eq!(config.reload(&server), "201");
    wait_lines(&log, "finalize o", 4);

    let call = client.call(ten("w", 1.0));
    wait_lines(&log, "waiting", 1);
    // The server stays responsive meanwhile.
    config.remove("pipeline_config_list", "w");
    assert_eq!(config.reload(&server), "201");
    assert!(!call.is_answered());
    assert_eq!(lines(&log, "finalize waits").len(), 0);
    fs::write(config.beside("gate"), "").unwrap();
    assert_eq!(call.wait().unwrap().outputs[0].name, "y");
    wait_lines(&log, "finalize waits", 1);
    stopped(server);
    assert_eq!(lines(&log, "finalize").len(), 6);
}
