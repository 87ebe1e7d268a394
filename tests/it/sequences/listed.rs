//! Lists of live sequences, and their ends without a step.

use serde_json::{Value, json};

use super::{shared, store};
use crate::support::{
    Server, http,
    infer::{REST, TFS_REST, infer, port},
    model, repository,
    sequence::{Ask, Client, Wire, counts, serve, wait_count},
};

const MODEL: &str = "running_total";

fn ask(id: u64) -> Ask {
    Ask::new(MODEL, 1.0).id(id)
}

/// Lists sequences, without how long they have been idle.
fn list(server: &Server, path: &str) -> Value {
    let answer = http::get(server, path);
    assert_eq!(answer.status, 200, "{path}");
    let mut json = answer.json();
    for row in json["sequences"].as_array_mut().unwrap() {
        let idle = row.as_object_mut().unwrap().remove("idle_seconds").unwrap();
        assert!(idle.as_u64().is_none_or(|idle| idle < 60), "{idle}");
    }
    json
}

fn all(server: &Server) -> Value {
    list(server, &format!("/v1/models/{MODEL}/sequences"))
}

fn here(id: u64, steps: u64) -> Value {
    json!({"sequence_id": id, "version": 1, "steps": steps, "place": "here"})
}

fn stored(id: u64, steps: u64) -> Value {
    json!({"sequence_id": id, "version": null, "steps": steps, "place": "store"})
}

fn path_of(model: &str, id: u64) -> String {
    format!("/v1/models/{model}/sequences/{id}")
}

fn path(id: u64) -> String {
    path_of(MODEL, id)
}

fn delete(server: &Server, path: &str) -> http::Answer {
    http::send(server, "DELETE", path, &[], b"")
}

/// Ends a sequence that there is.
fn end(server: &Server, path: &str) {
    let answer = delete(server, path);
    assert_eq!((answer.status, answer.text().as_str()), (204, ""));
}

#[test]
fn they_are_listed_with_their_steps_and_ended() {
    let server = shared::server();
    let client = Client::connect(server);
    for model in ["listed", "listed_requests"] {
        let ask = |id| Ask::new(model, 1.0).id(id);
        let all = || list(server, &format!("/v1/models/{model}/sequences"));
        let path = |id| path_of(model, id);
        assert_eq!(all(), json!({"total": 0, "sequences": []}));
        for id in [u64::MAX, 7, 9] {
            client.total(Wire::Raw, &ask(id).start());
        }
        client.total(Wire::Raw, &ask(9));
        client.refused(Wire::Raw, &ask(9).start());
        let three = json!({"total": 3, "sequences": [here(7, 1), here(9, 2), here(u64::MAX, 1)]});
        assert_eq!(all(), three);
        let of_version = format!("/v1/models/{model}/versions/1/sequences");
        assert_eq!(list(server, &of_version), three);
        let two = list(server, &format!("{of_version}?limit=2"));
        assert_eq!(two["total"], 3);
        assert_eq!(two["sequences"].as_array().unwrap().len(), 2);

        end(server, &path(9));
        for wire in Wire::ALL {
            assert_eq!(client.refused(wire, &ask(9)), wire.unknown());
        }
        let unknown = "404: Sequence with provided ID does not exist";
        assert_eq!(delete(server, &path(9)).error(), unknown);
        let two = json!({"total": 2, "sequences": [here(7, 1), here(u64::MAX, 1)]});
        assert_eq!(all(), two);
        let counts = counts(server);
        let count = |name: &str| counts[&format!(r#"{name}{{name="{model}",version="1"}}"#)];
        assert_eq!(
            [count("active"), count("started"), count("ended")],
            [2, 3, 1]
        );
        client.total(Wire::Raw, &ask(9).start());
        assert_eq!(client.total(Wire::Raw, &ask(7)), (7, 2.0));
    }
}

#[test]
fn versions_have_lists_of_their_own() {
    const BOTH: &str = "listed_versions";
    let server = shared::server();
    let client = Client::connect(server);
    client.total(Wire::Raw, &Ask::new(BOTH, 1.0).id(7).start());
    let of = |version: u8| format!("/v1/models/{BOTH}/versions/{version}/sequences");
    let state = http::get(server, &format!("{}/7", of(2)));
    assert_eq!(state.status, 200);
    let second = json!({"sequence_id": 7, "version": 2, "steps": 1, "place": "here"});
    let only = json!({"total": 1, "sequences": [second]});
    assert_eq!(list(server, &of(2)), only);
    assert_eq!(list(server, &of(1)), json!({"total": 0, "sequences": []}));
    let all = list(server, &format!("/v1/models/{BOTH}/sequences"));
    assert_eq!(all, only);
    let unknown = "404: Sequence with provided ID does not exist";
    assert_eq!(delete(server, &format!("{}/7", of(1))).error(), unknown);
    assert_eq!(delete(server, &format!("{}/7", of(2))).status, 204);
}

#[test]
fn what_has_no_sequences_has_no_list() {
    let server = Server::shared("dummy");
    let none = "412: Model has no sequences - it is served without `stateful`";
    for path in ["/v1/models/dummy/sequences", "/v1/models/dummy/sequences/1"] {
        let answers = [http::get(server, path), delete(server, path)];
        let [listed, deleted] = answers.map(|answer| (answer.status, answer.error()));
        assert_eq!(listed.1, none);
        let expected = match path.ends_with('1') {
            true => (412, none),
            false => (405, "405: Unsupported method"),
        };
        assert_eq!((deleted.0, &*deleted.1), expected, "{path}");
    }
    let nothing = http::get(server, "/v1/models/nothing/sequences");
    assert_eq!(
        nothing.error(),
        "404: Model with requested name is not found"
    );
    let limit = http::get(server, "/v1/models/dummy/sequences?limit=0");
    insta::assert_snapshot!(
        limit.error(),
        @"400: Invalid limit - expected a whole number from 1 to 10000, found `0`"
    );
}

#[test]
fn those_of_a_store_are_listed_and_ended_wherever_they_are() {
    let folder = repository::folder();
    let store = format!("file://{}", folder.path().display());
    for durability in ["step", "interval"] {
        let flags = [
            "--metrics_enable",
            "--sequence_store",
            &store,
            "--sequence_durability",
            durability,
        ];
        let mut server = serve(MODEL, &flags);
        let client = Client::connect(&server);
        for id in 1..=4 {
            client.total(Wire::Raw, &ask(id).start());
        }
        client.total(Wire::Raw, &ask(2));
        drop(client);
        server.signal("TERM");
        server.wait();
        drop(server);

        let server = serve(MODEL, &flags);
        let client = Client::connect(&server);
        let rows = [stored(1, 1), stored(2, 2), stored(3, 1), stored(4, 1)];
        assert_eq!(all(&server), json!({"total": 4, "sequences": rows}));
        client.total(Wire::Raw, &ask(2));
        end(&server, &path(1));
        let rows = [here(2, 3), stored(3, 1), stored(4, 1)];
        assert_eq!(all(&server), json!({"total": 3, "sequences": rows}));
        // Neither a list nor an end says anything of the others.
        wait_count(&server, &format!(r#"stored{{name="{MODEL}"}}"#), 3);
        let lost = "404: Sequence with provided ID does not exist";
        assert_eq!(delete(&server, &path(1)).error(), lost);
        for id in [2, 3, 4] {
            end(&server, &path(id));
            let unknown = Wire::Raw.unknown();
            assert_eq!(client.refused(Wire::Raw, &ask(id)), unknown);
        }
        assert_eq!(all(&server), json!({"total": 0, "sequences": []}));
        wait_count(&server, &format!(r#"stored{{name="{MODEL}"}}"#), 0);
    }
}

#[test]
fn a_start_that_is_refused_takes_no_other_away() {
    for durability in ["step", "long"] {
        let server = store::shared::file(durability);
        let client = Client::connect(server);
        let ask = |id| Ask::new("full", 1.0).id(id);
        let count = |name: &str| counts(server)[&format!(r#"{name}{{name="full",version="1"}}"#)];
        wait_count(server, r#"stored{name="full"}"#, 0);
        for id in [1, 2] {
            client.total(Wire::Raw, &ask(id).start());
        }
        for refused in 1..=4 {
            // One that exists, one with another id, and one without any.
            let start = match refused {
                1 => ask(1),
                2 => ask(3),
                _ => Ask::new("full", 1.0),
            };
            client.refused(Wire::Raw, &start.start());
            let found = [count("active"), count("refused"), count("moved")];
            assert_eq!(found, [2, refused, 0], "{durability} {refused}");
        }
        client.refused(Wire::Raw, &ask(5));
        assert_eq!(count("active"), 2, "{durability}");
        for id in [1, 2] {
            assert_eq!(client.total(Wire::Raw, &ask(id).end()), (id, 2.0));
        }
        assert_eq!((count("active"), count("evicted")), (0, 0));
    }
}

#[test]
fn a_model_whose_sequences_a_store_does_not_take_is_named() {
    let folder = repository::folder();
    let store = format!("file://{}", folder.path().display());
    let flags = ["--sequence_store", &store, "--state_mode", "requests"];
    let said = "--sequence-store has none of its sequences, since its state_mode is requests";
    shared::line(store::shared::file("step"), "requests", said);
    let run = crate::support::cli::ovms(
        [
            &["serve", "--check", "--stateful", "--model_name", MODEL],
            &[
                "--port",
                "9000",
                "--model_path",
                model(MODEL).to_str().unwrap(),
            ][..],
            &flags,
        ]
        .concat(),
    );
    assert_eq!(run.code, Some(2), "{}", run.stderr);
    let text = run.text() + &run.stderr;
    assert!(
        text.contains("model `running_total`: --sequence-store has none of its sequences"),
        "{text}"
    );
}

#[test]
fn the_page_for_terminals_and_the_command_line_show_them() {
    let server = serve(MODEL, &[]);
    let client = Client::connect(&server);
    let page = || http::get(&server, "/dashboard").text();
    assert!(page().contains("  0 sequences\n"), "{}", page());
    let run = infer(&server, REST, &[MODEL, "--sequences"]);
    assert_eq!((run.code, run.text().as_str()), (Some(0), ""));
    assert!(
        run.stderr.contains("has no live sequences."),
        "{}",
        run.stderr
    );
    client.total(Wire::Raw, &ask(7).start());
    assert!(page().contains("  1 sequence\n"), "{}", page());
    for api in [REST, TFS_REST] {
        let run = infer(&server, api, &[MODEL, "--sequences"]);
        assert_eq!(run.code, Some(0), "{}", run.stderr);
        let words: Vec<String> = run.text().split_whitespace().map(str::to_owned).collect();
        let words = words.join(" ").replace("1 s ", "0 s ");
        assert_eq!(words, "sequence version steps idle place 7 1 1 0 s here");
    }
    let printed = infer(&server, REST, &[MODEL, "--sequences", "--print-curl"]);
    let port = port(&server, REST).to_string();
    let command = printed.text().replace(&port, "PORT");
    insta::assert_snapshot!(command, @"curl -sS http://127.0.0.1:PORT/v1/models/running_total/sequences");
}
