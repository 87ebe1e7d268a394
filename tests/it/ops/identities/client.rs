//! Credentials of the command line: `ovms key`, and every subcommand that asks a server.

use super::{Guarded, SERVER, key};
use crate::support::{
    Server,
    cli::{self, Run},
};

const APIS: [&str; 4] = ["kserve-grpc", "tfs-grpc", "kserve-rest", "tfs-rest"];

fn url(server: &Server, api: &str) -> String {
    match api.ends_with("grpc") {
        true => format!("localhost:{}", server.port),
        false => format!("localhost:{}", server.rest_port),
    }
}

fn run(server: &Server, words: &[&str], api: &str, variable: Option<&str>) -> Run {
    let mut command = cli::command();
    command
        .args(words)
        .args(["--api", api, "--url", &url(server, api)]);
    if let Some(key) = variable {
        command.env("OVMS_API_KEY", key);
    }
    cli::run(&mut command)
}

#[test]
fn requests_carry_credentials_over_every_protocol() {
    let key = key("user");
    for api in APIS {
        for words in [
            &["infer", "dummy", "--zeros"][..],
            &["infer", "dummy", "--metadata"],
            &["infer", "dummy", "--status"],
            &["infer", "dummy", "--zeros", "--repeat", "5"],
            &[
                "bench",
                "dummy",
                "--zeros",
                "--interval",
                "50ms",
                "--max-trials",
                "3",
            ],
        ] {
            let what = format!("{api} {words:?}");
            let with = |flag: &str| run(&SERVER, &[words, &[flag, &key]].concat(), api, None);
            for run in [
                with("--api-key"),
                with("--bearer"),
                run(&SERVER, words, api, Some(&key)),
            ] {
                assert_eq!(run.code, Some(0), "{what}: {}", run.stderr);
                let shown = format!("{}{}", run.text(), run.stderr);
                assert!(!shown.contains(&key), "{what}: {shown}");
            }
            let refused = run(
                &SERVER,
                &[words, &["--api-key", "ovms_wrong"]].concat(),
                api,
                None,
            );
            assert_ne!(refused.code, Some(0), "{what}");
            assert!(
                !refused.stderr.contains("ovms_wrong"),
                "{what}: {}",
                refused.stderr
            );
        }
    }
    let none = run(&SERVER, &["infer", "dummy", "--zeros"], "kserve-grpc", None);
    let said = none.failure();
    assert!(
        said.contains("there are no credentials") && said.contains("hint: give a credential"),
        "{said}"
    );
    assert_eq!(none.code, Some(1), "{said}");
    let hidden = run(
        &SERVER,
        &["infer", "secret", "--zeros", "--api-key", &key],
        "kserve-grpc",
        None,
    );
    let said = hidden.failure();
    assert!(
        said.contains("Model with requested name is not found"),
        "{said}"
    );
    let streamed = ["infer", "dummy", "--zeros", "--stream", "--api-key", &key];
    let streamed = run(&SERVER, &streamed, "kserve-grpc", None);
    assert_eq!(streamed.code, Some(0), "{}", streamed.stderr);
}

#[test]
fn one_that_may_see_nothing_learns_that_there_may_be_more() {
    let key = key("operator");
    for api in APIS {
        let words = ["infer", "--status", "--api-key", &key];
        let listed = run(&SERVER, &words, api, None);
        let what = format!("{api}: {}", listed.stderr);
        assert_eq!(listed.code, Some(0), "{what}");
        let note = "The server has no models, or none that this identity may see: one with the right `admin` alone";
        assert!(listed.stderr.contains(note), "{what}");
        let hidden = run(
            &SERVER,
            &["infer", "dummy", "--zeros", "--api-key", &key],
            api,
            None,
        );
        let hint = "hint: the server has no models, or none that this identity may see";
        assert!(hidden.stderr.contains(hint), "{api}: {}", hidden.stderr);
    }
}

#[test]
fn credentials_are_not_shown() {
    for api in APIS {
        let words = [
            "infer",
            "dummy",
            "--zeros",
            "--print-curl",
            "--api-key",
            &key("user"),
            "--bearer",
            "a.b.c",
        ];
        let printed = run(&SERVER, &words, api, None);
        let shown = format!("{}{}", printed.text(), printed.stderr);
        assert!(
            !shown.contains(&key("user")) && !shown.contains("a.b.c"),
            "{shown}"
        );
    }
    let secret = "ovms_with\nbreak";
    let refused = run(
        &SERVER,
        &["infer", "dummy", "--zeros", "--api-key", secret],
        "kserve-rest",
        None,
    );
    let said = refused.failure();
    assert!(
        said.contains("--api-key has characters that headers do not have"),
        "{said}"
    );
    assert!(!said.contains("ovms_with"), "{said}");
    assert_eq!(refused.code, Some(64), "{said}");
}

#[test]
fn a_new_key_goes_into_the_file_as_it_is_printed() {
    let made = cli::ovms(["key", "new", "--name", "a \"camera\""]);
    assert_eq!(made.code, Some(0), "{}", made.stderr);
    let text = made.text();
    let (key, lines) = text.split_once('\n').unwrap();
    assert!(key.starts_with("ovms_") && key.len() == 48, "{key}");
    assert!(!lines.contains(key), "{lines}");
    assert_ne!(
        cli::ovms(["key", "new"]).text(),
        cli::ovms(["key", "new"]).text()
    );
    let guarded = Guarded::with(lines, &[]);
    let good = run(
        &guarded.server,
        &["infer", "secret", "--zeros", "--api-key", key],
        "kserve-grpc",
        None,
    );
    assert_eq!(good.code, Some(0), "{}", good.stderr);
}

#[test]
fn a_name_that_the_file_could_not_have_gets_no_key() {
    for name in ["", "  ", &"x".repeat(129), "two\nlines"] {
        let run = cli::ovms(["key", "new", "--name", name]);
        assert_eq!(run.code, Some(64), "{name:?}: {}", run.stderr);
        assert_eq!(run.text(), "", "{name:?}");
        let reason = "found a name that is empty, longer than 128 bytes, or not of one line";
        assert!(run.stderr.contains(reason), "{name:?}: {}", run.stderr);
    }
    let longest = "x".repeat(128);
    assert_eq!(cli::ovms(["key", "new", "--name", &longest]).code, Some(0));
}

#[test]
fn a_doctor_asks_with_a_credential() {
    let doctor = |flags: &[&str]| {
        let url = format!("http://localhost:{}", SERVER.rest_port);
        let run = cli::run(cli::command().args(["doctor", "--url", &url]).args(flags));
        run.text()
    };
    let text = doctor(&["--api-key", &key("reader")]);
    assert!(text.contains("answers at"), "{text}");
    assert!(!text.contains(&key("reader")), "{text}");
    let text = doctor(&[]);
    assert!(text.contains("OVMS_API_KEY or `--api-key`"), "{text}");
}
