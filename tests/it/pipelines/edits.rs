//! Random edits of valid pipelines: invalid ones are refused, by the server and by the check alike.

use std::collections::BTreeMap;

use rand::{SeedableRng, rngs::StdRng};
use serde_json::Value;

use super::property::{SERVED, randoms, valid};
use crate::support::{
    cli,
    pipelines::status,
    random::{Random, edits::EDITS},
};

/// Number of times each edit is made, each time on another pipeline.
const TIMES: usize = 4;

/// An edited pipeline, and the expected texts of the log and the check.
pub(super) struct Edited {
    what: &'static str,
    pub(super) config: Value,
    texts: &'static [&'static str],
}

/// Applies each edit to some of the pipelines that it applies to.
pub(super) fn edited(randoms: &[Random]) -> Vec<Edited> {
    let mut made = Vec::new();
    for ((what, edit), place) in EDITS.iter().zip(0_usize..) {
        // Each begins with another pipeline, so that it is not always the same few.
        let randoms = randoms.iter().cycle().skip(place * 7).take(randoms.len());
        let edited = randoms.filter_map(|random| {
            let mut rng = StdRng::seed_from_u64(random.seed);
            let mut config = random.config();
            let texts = edit(&mut config, &mut rng)?;
            Some(Edited {
                what,
                config,
                texts,
            })
        });
        let before = made.len();
        made.extend(edited.take(TIMES));
        assert!(made.len() > before, "there is no pipeline to edit: {what}");
    }
    for (edited, place) in made.iter_mut().zip(0..) {
        edited.config["name"] = format!("edit{place}").into();
    }
    made
}

/// Returns the log message of each invalid pipeline.
fn logged(log: &str) -> BTreeMap<&str, &str> {
    const BEGIN: &str = "Validation of pipeline definition: ";
    let lines = log.lines().filter_map(|line| line.split_once(BEGIN));
    let reported = lines.filter_map(|(_, reported)| reported.split_once(" failed: "));
    reported.collect()
}

/// Returns an error of the check in the form of the log.
fn error(error: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let node = match error["node"].as_str() {
        Some(node) => format!("node `{node}`: "),
        None => String::new(),
    };
    format!(
        "{}:{} {}: {} - {node}found {}; expected {}; {}",
        error["line"],
        error["column"],
        text(&error["path"]),
        text(&error["status"]),
        text(&error["found"]),
        text(&error["expected"]),
        text(&error["next"]),
    )
}

#[test]
fn what_may_not_be_is_refused_by_the_server_and_by_the_check() {
    let edited = edited(&randoms(100, 40));
    let (path, server) = &*SERVED;
    let log = server.log();
    let logged = logged(&log);
    let path = path.to_str().unwrap();
    let run = cli::ovms(["pipeline", "check", "--output", "json", path]);
    assert_eq!(run.code, Some(1), "{}", run.stderr);
    let report: Value = serde_json::from_slice(&run.stdout).unwrap();
    let mut reports = report["pipelines"].as_array().unwrap().iter();

    for Edited {
        what,
        config,
        texts,
    } in &edited
    {
        let name = config["name"].as_str().unwrap();
        let found = logged.get(name).copied();
        let reported = || format!("{name}: {what}: {config:#}");
        assert!(found.is_some(), "{}", reported());
        let report = reports.next().unwrap();
        assert_eq!(report["name"], name);
        assert_eq!(report["verdict"], "faults", "{}", reported());
        // The text, and behind it all errors, word for word the same.
        let (status_text, errors) = found.unwrap().split_once(": ").unwrap();
        assert!(texts.contains(&status_text), "{found:?} of {}", reported());
        assert_eq!(report["status"], status_text, "{}", reported());
        let checked: Vec<String> = report["faults"]
            .as_array()
            .unwrap()
            .iter()
            .map(error)
            .collect();
        assert_eq!(checked.join("; "), errors, "{}", reported());
        assert_eq!(status(server, name), "LOADING FAILED_PRECONDITION");
    }
    for random in &valid() {
        let name = random.name.as_str();
        let reported = || format!("{name}: {:#}", random.config());
        assert_eq!(logged.get(name), None, "{}", reported());
        let report = reports.next().unwrap();
        assert_eq!(report["name"], name);
        let verdict = report["verdict"].as_str().unwrap();
        assert!(
            ["ok", "warnings"].contains(&verdict),
            "{verdict} {}",
            reported()
        );
        assert_eq!(status(server, name), "AVAILABLE OK");
    }
    assert_eq!(reports.next(), None);
}
