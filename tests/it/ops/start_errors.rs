//! Servables that fail to load though the server starts: the messages about them.

use serde_json::json;

use crate::support::{http::get, pipelines::Config};

/// Serves a file of models, of which the first ones are not there; returns the log once the server is ready.
fn log_of(missing: usize, there: &[&str]) -> String {
    let mut config = Config::of(there);
    for number in 1..=missing {
        config.model(&format!("m{number}"), "/nowhere".as_ref());
    }
    let server = config.serve();
    assert_eq!(get(&server, "/v2/health/ready").status, 200);
    // Behind whatever is said of readiness.
    server.wait_log("ovms 0.1.0 serves");
    server.log()
}

#[test]
fn a_server_that_could_load_nothing_says_that_it_is_ready_all_the_same() {
    let warnings = |log: &str| -> Vec<String> {
        let lines = log
            .lines()
            .filter(|line| line.contains(" WARN ") && line.contains("ready, but"));
        lines.map(str::to_owned).collect()
    };
    let some = warnings(&log_of(5, &[]));
    assert_eq!(some.len(), 1, "{some:?}");
    let expected = "the server is ready, but none of the 5 servables could be loaded: `m1`, `m2`, `m3`, and 2 more; \
                    the errors above say why. `/v2/models/NAME/ready` reports one of them, and `ovms_loads` counts loads that failed";
    assert!(some[0].ends_with(expected), "{some:?}");
    let one = warnings(&log_of(1, &[]));
    assert!(
        one[0].contains("the one servable, `m1`, could not be loaded"),
        "{one:?}"
    );
    assert_eq!(warnings(&log_of(2, &["dummy"])), [""; 0]);
    // Nothing is wrong with a server of nothing.
    let mut config = Config::of(&[]);
    config.json["model_config_list"] = json!([]);
    let server = config.serve();
    server.wait_ready();
    assert_eq!(warnings(&server.log()), [""; 0]);
}
