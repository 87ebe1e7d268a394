//! Patterns that fit nothing that is served: warnings at the start and whenever something changes.

use std::fs;

use serde_json::json;

use super::{Guarded, bearer, identity};
use crate::support::{http::send, model};

/// Serves models of these names from now on.
fn configure(guarded: &Guarded, names: &[&str]) {
    let entry = |name: &&str| json!({"config": {"name": name, "base_path": model("dummy")}});
    let models: Vec<_> = names.iter().map(entry).collect();
    let next = guarded.path("config.next");
    fs::write(&next, json!({"model_config_list": models}).to_string()).unwrap();
    fs::rename(next, guarded.path("config.json")).unwrap();
}

fn reload(guarded: &Guarded) {
    let header = [("authorization", &*bearer("root"))];
    let answer = send(&guarded.server, "POST", "/v1/config/reload", &header, b"");
    assert!([200, 201].contains(&answer.status), "{answer:?}");
}

/// Returns the identities: one with these patterns, and one that reloads.
fn rights(patterns: &str) -> String {
    let root = identity("root", "infer = [\"*\"]\nadmin = true");
    format!("{}{root}", identity("a", &format!("infer = [{patterns}]")))
}

/// Returns how often the log warns of a pattern.
fn warnings(guarded: &Guarded, pattern: &str) -> usize {
    let text = format!("nothing that is served fits `{pattern}`");
    guarded.server.log().matches(&text).count()
}

#[test]
fn a_start_and_each_reload_look_at_patterns_and_say_what_is_new() {
    let poll = ["--file_system_poll_wait_seconds", "0"];
    let guarded = Guarded::with(&rights("\"dummi\", \"z?\", \"*\""), &poll);
    let said = guarded.server.wait_log("fits `dummi`");
    assert!(
        said.contains(" WARN ") && said.contains("auth.toml:4:10: "),
        "{said}"
    );
    assert!(said.ends_with("`dummi` (did you mean `dummy`?)"), "{said}");
    let said = guarded.server.wait_log("fits `z?`");
    let fix = "(served are `dummy`, `secret`; it counts once a servable is added whose name fits)";
    assert!(said.ends_with(fix), "{said}");
    assert_eq!(warnings(&guarded, "dummi"), 1);

    guarded.rewrite(&rights("\"dummy\", \"secret\""));
    reload(&guarded);
    configure(&guarded, &["dummy"]);
    reload(&guarded);
    let said = guarded
        .server
        .wait_log("nothing that is served fits `secret`");
    assert!(
        said.ends_with("(`dummy` is served; it counts once a servable is added whose name fits)"),
        "{said}"
    );
    // Said once, also of a file that is new in other lines.
    reload(&guarded);
    guarded.rewrite(&format!("# Another place.\n{}", rights("\"secret\"")));
    reload(&guarded);
    // A pattern and a servable that come together fit.
    guarded.rewrite(&rights("\"secret\", \"new\""));
    configure(&guarded, &["dummy", "new"]);
    reload(&guarded);
    guarded.rewrite(&rights("\"secret\", \"newer\""));
    reload(&guarded);
    let said = guarded
        .server
        .wait_log("nothing that is served fits `newer`");
    assert!(said.contains("(did you mean `new`?)"), "{said}");
    assert_eq!(warnings(&guarded, "secret"), 1);
    assert_eq!(warnings(&guarded, "new"), 0);
    // It fits again, and once more nothing.
    configure(&guarded, &["dummy", "secret"]);
    reload(&guarded);
    configure(&guarded, &["dummy"]);
    reload(&guarded);
    guarded.rewrite(&rights("\"last\""));
    reload(&guarded);
    guarded
        .server
        .wait_log("nothing that is served fits `last`");
    assert_eq!(warnings(&guarded, "secret"), 2);
}

#[test]
fn files_that_are_watched_are_looked_at_too() {
    let guarded = Guarded::with(
        &rights("\"secret\""),
        &["--file_system_poll_wait_seconds", "1"],
    );
    guarded.rewrite(&rights("\"secret\", \"dumy\""));
    let said = guarded
        .server
        .wait_log("nothing that is served fits `dumy`");
    assert!(said.contains("(did you mean `dummy`?)"), "{said}");
    configure(&guarded, &["dummy"]);
    guarded
        .server
        .wait_log("nothing that is served fits `secret`");
}
