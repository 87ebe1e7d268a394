//! Sequences that others have taken over: the former owner lets them go by itself.

use std::collections::BTreeMap;

use serde_json::json;

use super::{LONG, MODEL, NONE, STEP, ask, path, serve, start, step};
use crate::support::{
    Server, http,
    redis::Redis,
    repository,
    sequence::{Ask, Client, Wire, counts, entry, serve_file, wait_count, write},
};

/// Lists where the sequences are, by their ids.
fn places(server: &Server, of: &str) -> BTreeMap<u64, (String, u64)> {
    let answer = http::get(server, &format!("/v1/models/{of}/sequences"));
    assert_eq!(answer.status, 200);
    let json = answer.json();
    let rows = json["sequences"].as_array().unwrap();
    let rows = rows.iter().map(|row| {
        let place = row["place"].as_str().unwrap().to_owned();
        let (id, steps) = (&row["sequence_id"], &row["steps"]);
        (id.as_u64().unwrap(), (place, steps.as_u64().unwrap()))
    });
    rows.collect()
}

fn active() -> String {
    format!(r#"active{{name="{MODEL}",version="1"}}"#)
}

#[test]
fn the_figures_forget_what_another_server_has_taken_over() {
    let Some(redis) = Redis::start(&[]) else {
        return;
    };
    for flags in [&STEP[..], &NONE, &LONG] {
        redis.ask::<()>("FLUSHALL");
        let flags = [flags, &["--metrics_enable"]].concat();
        let servers: [Server; 2] = serve(MODEL, &redis.url(), &flags);
        let clients = servers.each_ref().map(Client::connect);
        // More than are asked about at once.
        for id in 1..=260 {
            start(&clients[0], id);
        }
        assert_eq!(step(&clients[1], 1), 2.0);
        assert_eq!(clients[1].total(Wire::Raw, &ask(2).end()), (2, 2.0));
        let moved = format!(r#"moved{{name="{MODEL}",version="1"}}"#);
        wait_count(&servers[0], &moved, 2);
        assert_eq!(counts(&servers[0])[&active()], 258, "{flags:?}");
        assert_eq!(counts(&servers[1])[&active()], 1);
        // What is left is that of the newest state, at either.
        assert_eq!(step(&clients[0], 3), 2.0);
        assert_eq!(step(&clients[0], 1), 3.0);
        wait_count(&servers[1], &active(), 0);
        assert_eq!(counts(&servers[0])[&active()], 259);
    }
}

#[test]
fn a_list_has_none_that_another_server_has_taken_over() {
    let Some(redis) = Redis::start(&[]) else {
        return;
    };
    for flags in [&STEP[..], &LONG] {
        redis.ask::<()>("FLUSHALL");
        let servers: [Server; 2] = serve(MODEL, &redis.url(), flags);
        let clients = servers.each_ref().map(Client::connect);
        let place = |place: &str, steps| (place.to_owned(), steps);
        for round in 0..3 {
            let id = 7 + round;
            start(&clients[0], id);
            start(&clients[0], 70 + round);
            let of = |server| places(server, MODEL).remove(&id).unwrap();
            assert_eq!(of(&servers[0]), place("here", 1));
            assert_eq!(step(&clients[1], id), 2.0);
            assert_eq!(of(&servers[0]).0, "store", "{flags:?}");
            assert_eq!(of(&servers[1]), place("here", 2));
            assert_eq!(places(&servers[0], MODEL)[&(70 + round)], place("here", 1));
        }
        // To end it where it was does so where it is.
        let ended = http::send(&servers[0], "DELETE", &path(7), &[], b"");
        assert_eq!(ended.status, 204, "{}", ended.text());
        for server in &servers {
            assert_eq!(places(server, MODEL).get(&7), None);
        }
    }
}

#[test]
fn a_client_may_begin_another_one_where_one_of_it_has_been_taken_over() {
    let Some(redis) = Redis::start(&[]) else {
        return;
    };
    let limits = ["--client-limits", "sequences=1"];
    let servers: [Server; 2] = serve(MODEL, &redis.url(), &[&STEP[..], &limits].concat());
    let clients = servers.each_ref().map(Client::connect);
    start(&clients[0], 7);
    let begins = || clients[0].send(Wire::Raw, &ask(8).start()).is_ok();
    assert!(!begins());
    assert_eq!(step(&clients[1], 7), 2.0);
    crate::support::eventually("there is room", || begins().then_some(()));
}

#[test]
fn a_version_forgets_what_another_one_of_the_same_server_goes_on_with() {
    let folder = repository::of(&[("1", MODEL), ("2", MODEL)]);
    let (config, store) = (folder.path().join("config.json"), repository::folder());
    let mut both = entry(MODEL, MODEL);
    both["base_path"] = json!(folder.path());
    both["model_version_policy"] = json!({"all": {}});
    write(&config, &[both]);
    let store = format!("file://{}", store.path().display());
    let flags = ["--metrics_enable", "--sequence_store", &store];
    let server = serve_file(&config, &[&flags[..], &STEP].concat());
    let client = Client::connect(&server);
    let ask = |version| Ask::new(MODEL, 1.0).id(7).version(version);
    assert_eq!(client.total(Wire::Raw, &ask(1).start()), (7, 1.0));
    assert_eq!(client.total(Wire::Raw, &ask(2)), (7, 2.0));
    wait_count(&server, &active(), 0);
    let of_second = format!(r#"active{{name="{MODEL}",version="2"}}"#);
    assert_eq!(counts(&server)[&of_second], 1);
    assert_eq!(client.total(Wire::Raw, &ask(1)), (7, 3.0));
    let listed = places(&server, MODEL);
    assert_eq!(listed, BTreeMap::from([(7, ("here".to_owned(), 3))]));
}
