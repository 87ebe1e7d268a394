//! Sequences that others have taken over: the former owner lets them go by itself.

use std::collections::BTreeMap;

use super::{MODEL, STEP, ask, serve, shared, start, step};
use crate::support::{
    Server, http,
    redis::Redis,
    sequence::{Ask, Client, Wire, counts, wait_count},
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

/// Starts a sequence of a model.
fn begin(client: &Client<'_>, model: &str, id: u64) {
    let start = Ask::new(model, 1.0).id(id).start();
    assert_eq!(client.total(Wire::Raw, &start), (id, 1.0));
}

/// Sends a step to it; returns the total.
fn go_on(client: &Client<'_>, model: &str, id: u64) -> f32 {
    client.total(Wire::Raw, &Ask::new(model, 1.0).id(id)).1
}

#[test]
fn the_figures_forget_what_another_server_has_taken_over() {
    const NAME: &str = "figures";
    const ACTIVE: &str = r#"active{name="figures",version="1"}"#;
    for durability in ["step", "none", "long"] {
        let pair = found!(shared::pair(durability));
        let (servers, clients) = (&pair.servers, pair.clients());
        // More than are asked about at once.
        for id in 1..=260 {
            begin(&clients[0], NAME, id);
        }
        assert_eq!(go_on(&clients[1], NAME, 1), 2.0);
        let end = Ask::new(NAME, 1.0).id(2).end();
        assert_eq!(clients[1].total(Wire::Raw, &end), (2, 2.0));
        wait_count(&servers[0], r#"moved{name="figures",version="1"}"#, 2);
        assert_eq!(counts(&servers[0])[ACTIVE], 258, "{durability}");
        assert_eq!(counts(&servers[1])[ACTIVE], 1);
        // What is left is that of the newest state, at either.
        assert_eq!(go_on(&clients[0], NAME, 3), 2.0);
        assert_eq!(go_on(&clients[0], NAME, 1), 3.0);
        wait_count(&servers[1], ACTIVE, 0);
        assert_eq!(counts(&servers[0])[ACTIVE], 259);
    }
}

#[test]
fn a_list_has_none_that_another_server_has_taken_over() {
    for durability in ["step", "long"] {
        let pair = found!(shared::pair(durability));
        let (servers, clients) = (&pair.servers, pair.clients());
        let place = |place: &str, steps| (place.to_owned(), steps);
        for round in 0..3 {
            let id = 7 + round;
            begin(&clients[0], "list", id);
            begin(&clients[0], "list", 70 + round);
            let of = |server| places(server, "list").remove(&id).unwrap();
            assert_eq!(of(&servers[0]), place("here", 1));
            assert_eq!(go_on(&clients[1], "list", id), 2.0);
            assert_eq!(of(&servers[0]).0, "store", "{durability}");
            assert_eq!(of(&servers[1]), place("here", 2));
            assert_eq!(places(&servers[0], "list")[&(70 + round)], place("here", 1));
        }
        // To end it where it was does so where it is.
        let path = "/v1/models/list/sequences/7";
        let ended = http::send(&servers[0], "DELETE", path, &[], b"");
        assert_eq!(ended.status, 204, "{}", ended.text());
        for server in servers {
            assert_eq!(places(server, "list").get(&7), None);
        }
    }
}

#[test]
fn a_client_may_begin_another_one_where_one_of_it_has_been_taken_over() {
    let redis = found!(Redis::start(&[]));
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
    let server = shared::file("step");
    let client = Client::connect(server);
    let ask = |version| Ask::new("goes", 1.0).id(7).version(version);
    assert_eq!(client.total(Wire::Raw, &ask(1).start()), (7, 1.0));
    assert_eq!(client.total(Wire::Raw, &ask(2)), (7, 2.0));
    wait_count(server, r#"active{name="goes",version="1"}"#, 0);
    assert_eq!(counts(server)[r#"active{name="goes",version="2"}"#], 1);
    assert_eq!(client.total(Wire::Raw, &ask(1)), (7, 3.0));
    let listed = places(server, "goes");
    assert_eq!(listed, BTreeMap::from([(7, ("here".to_owned(), 3))]));
}
