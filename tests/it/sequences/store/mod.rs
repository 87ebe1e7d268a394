//! Sequences in stores: any server goes on with them, whatever happens to the others and to the store.

/// Returns what there is, or ends the test: it needs a program that is not on this machine.
macro_rules! found {
    ($it:expr) => {{
        let Some(found) = $it else {
            return;
        };
        found
    }};
}

mod again;
mod bad;
mod clocks;
mod crashes;
mod failover;
mod files;
mod given_up;
mod keys;
mod links;
mod passed;
mod repeated;
pub(super) mod shared;
mod steps;
mod valkey;
mod versions;

use serde_json::json;

use crate::support::{
    Server, http, model,
    redis::Redis,
    sequence::{Ask, Client, Wire},
};

const MODEL: &str = "running_total";
const STEP: [&str; 2] = ["--sequence_durability", "step"];
const NONE: [&str; 2] = ["--sequence_durability", "none"];
/// Intervals that are over after the test.
const LONG: [&str; 2] = ["--sequence_store_interval_ms", "600000"];
const SOON: [&str; 2] = ["--sequence_store_timeout_ms", "1500"];
const LOST: &str = "NotFound: Sequence with provided ID does not exist - its stored state may be older than its last answer";
const AWAY: &str = "Unavailable: Sequence store is not available - try again";
const DAMAGED: &str = "Internal: Sequence store is damaged";

fn ask(id: u64) -> Ask {
    Ask::new(MODEL, 1.0).id(id)
}

/// Starts servers of a fixture that share a store, and waits for all of them.
fn serve<const N: usize>(fixture: &str, store: &str, flags: &[&str]) -> [Server; N] {
    let flags = [&["--stateful", "--sequence_store", store][..], flags].concat();
    let servers = [(); N].map(|()| Server::begin(fixture, &model(fixture), &flags));
    servers.iter().for_each(Server::wait_ready);
    servers
}

/// Sends a step that must succeed; returns the total.
fn step(client: &Client<'_>, id: u64) -> f32 {
    client.total(Wire::Raw, &ask(id)).1
}

/// Starts a sequence.
fn start(client: &Client<'_>, id: u64) {
    assert_eq!(client.total(Wire::Raw, &ask(id).start()), (id, 1.0));
}

fn refused(client: &Client<'_>, id: u64) -> String {
    client.refused(Wire::Raw, &ask(id))
}

/// Checks that a server refuses a step, since its model has other files.
fn refuses_other_files(client: &Client<'_>, ask: &Ask) {
    for wire in Wire::ALL {
        let text = client.refused(wire, ask);
        let code = if wire.is_grpc() {
            "FailedPrecondition: "
        } else {
            "412: "
        };
        assert!(text.starts_with(code) && text.contains("digest"), "{text}");
    }
}

/// Starts a server that is alone at its store, with one sequence; returns the name of its lease, too.
fn alone(redis: &Redis, id: u64) -> (Server, String) {
    let [server] = serve(MODEL, &redis.url(), &LONG);
    start(&Client::connect(&server), id);
    let mut names = redis.ask::<Vec<String>>("KEYS ovms:server:*");
    assert_eq!(names.len(), 1, "{names:?}");
    (server, names.remove(0))
}

/// Kills a server whose lease is over at once.
fn lose(mut server: Server, redis: &Redis, lease: &str) {
    server.signal("KILL");
    server.wait();
    redis.ask::<()>(&format!("DEL {lease}"));
}

/// Returns the key of a record.
fn record(id: u64) -> String {
    format!("ovms:{{running%5Ftotal}}:s:{id}")
}

/// A step of `running_busy` that takes a while.
fn busy(id: u64, steps: i64) -> Ask {
    Ask::new("running_busy", 1.0).id(id).extra("steps", steps)
}

fn path(id: u64) -> String {
    format!("/v1/models/{MODEL}/sequences/{id}")
}

#[test]
fn records_stay_as_long_as_the_cleaner_would_keep_the_sequences() {
    let redis = found!(Redis::start(&[]));
    let cleaner = |minutes| ["--sequence_cleaner_poll_wait_minutes", minutes];
    let [first] = serve(MODEL, &redis.url(), &[STEP, cleaner("0")].concat());
    let [second] = serve(MODEL, &redis.url(), &[STEP, cleaner("2")].concat());
    let clients = [&first, &second].map(Client::connect);
    for (id, place, least, most) in [(1, 0, -1, -1), (2, 1, 180_000, 240_000)] {
        start(&clients[place], id);
        let rest = redis.ask::<i64>(&format!("PTTL {}", record(id)));
        assert!((least..=most).contains(&rest), "{place}: {rest}");
    }
    clients[1].total(Wire::Raw, &ask(2).end());
    let kept = || -> usize {
        let stats = redis.ask::<String>("INFO commandstats");
        let calls = stats.split_once("cmdstat_zadd:calls=").unwrap().1;
        calls.split_once(',').unwrap().0.parse().unwrap()
    };
    let before = kept();
    (2_u8..10).for_each(|number| assert_eq!(step(&clients[0], 1), f32::from(number)));
    assert_eq!(kept(), before, "it stays for ever");
    let rest = || redis.ask::<i64>(&format!("PTTL {}", record(1)));
    for (place, least, most) in [(1, 180_000, 240_000), (0, -1, -1), (1, 180_000, 240_000)] {
        step(&clients[place], 1);
        assert!((least..=most).contains(&rest()), "{place}: {}", rest());
    }
    let before = kept();
    step(&clients[1], 1);
    assert_eq!(kept(), before, "little time has gone by");
    // To read a state is no use of it, however long ago the last one was.
    redis.ask::<()>(&format!("HSET {} l 1", record(1)));
    redis.ask::<()>(&format!("PEXPIRE {} 100000", record(1)));
    for server in [&second, &first] {
        assert_eq!(http::get(server, &path(1)).status, 200);
        assert!((1..=100_000).contains(&rest()), "{}", rest());
    }
    step(&clients[1], 1);
    assert!((180_000..=240_000).contains(&rest()), "{}", rest());
}

#[test]
fn the_id_of_a_start_is_known_for_five_minutes_at_least() {
    let redis = found!(Redis::start(&[]));
    for (minutes, least, most) in [("0", -1, -1), ("1", 240_000, 300_000)] {
        redis.ask::<()>("FLUSHALL");
        let cleaner = ["--sequence_cleaner_poll_wait_minutes", minutes];
        let [server] = serve(MODEL, &redis.url(), &[STEP, cleaner].concat());
        let client = Client::connect(&server);
        let begin = Ask::new(MODEL, 1.0).start().key("a");
        let (id, _) = client.total(Wire::Raw, &begin);
        let rest = || redis.ask::<i64>("PTTL ovms:{running%5Ftotal}:k:a");
        assert!((least..=most).contains(&rest()), "{minutes}: {}", rest());
        assert_eq!(client.total(Wire::Raw, &begin), (id, 1.0));
        client.total(Wire::Raw, &ask(id).end());
        let after = rest();
        assert!((240_000..=300_000).contains(&after), "{minutes}: {after}");
    }
}

#[test]
fn sequences_without_tensors_stay_on_their_server() {
    let redis = found!(Redis::start(&[]));
    let requests = [
        "--state_mode",
        "requests",
        "--drain_sequences_seconds",
        "60",
    ];
    let [mut first, second] = serve(MODEL, &redis.url(), &[&STEP[..], &requests].concat());
    let clients = [&first, &second].map(Client::connect);
    for wire in Wire::ALL {
        assert_eq!(clients[0].total(wire, &ask(7).start().key("k")), (7, 1.0));
        assert_eq!(clients[0].total(wire, &ask(7).key("k")), (7, 2.0));
        assert_eq!(clients[1].refused(wire, &ask(7)), wire.unknown());
        assert_eq!(clients[0].total(wire, &ask(7).end().key("k")), (7, 3.0));
    }
    assert!(redis.ask::<Vec<String>>("KEYS *running*").is_empty());
    // They cannot go on elsewhere, so a stop waits for them.
    start(&clients[0], 7);
    first.signal("TERM");
    first.wait_log("waiting for sequences to end sequences=1");
    assert_eq!(clients[0].total(Wire::Raw, &ask(7).end()), (7, 2.0));
    drop(clients);
    assert!(first.wait().success());
}

#[test]
fn files_of_states_come_from_and_go_to_any_server() {
    let redis = found!(Redis::start(&[]));
    for flags in [&STEP[..], &LONG] {
        redis.ask::<()>("FLUSHALL");
        let servers: [Server; 2] = serve(MODEL, &redis.url(), flags);
        let clients = servers.each_ref().map(Client::connect);
        start(&clients[0], 7);
        assert_eq!(step(&clients[1], 7), 2.0);
        // The state that is left here is older.
        let file = http::get(&servers[0], &path(7)).body;
        let put = |server, id| http::send(server, "PUT", &path(id), &[], &file);
        assert_eq!(put(&servers[1], 8).status, 201);
        let exists = "409: Sequence with provided ID already exists";
        assert_eq!(put(&servers[0], 8).error(), exists);
        assert_eq!(step(&clients[0], 8), 3.0);
        assert_eq!(step(&clients[1], 7), 3.0);
        let unknown = "404: Sequence with provided ID does not exist";
        assert_eq!(http::get(&servers[0], &path(9)).error(), unknown);
        // To have read a file is no step that could be lost.
        assert_eq!(http::get(&servers[0], &path(7)).status, 200);
        drop(clients);
        let [first, second] = servers;
        first.signal("KILL");
        assert_eq!(step(&Client::connect(&second), 7), 4.0);
    }
}

#[test]
fn a_reload_goes_on_from_the_store_if_the_model_is_the_same() {
    let redis = found!(Redis::start(&[]));
    let folder = crate::support::repository::of(&[("1", MODEL)]);
    let config = folder.path().join("config.json");
    let write = |nireq: u32| {
        let mut entry = crate::support::sequence::entry(MODEL, MODEL);
        (entry["base_path"], entry["nireq"]) = (json!(folder.path()), json!(nireq));
        crate::support::sequence::write(&config, &[entry]);
    };
    for flags in [&STEP[..], &LONG] {
        redis.ask::<()>("FLUSHALL");
        write(1);
        let url = redis.url();
        let store = [&["--sequence_store", &url][..], flags].concat();
        let server = crate::support::sequence::serve_file(&config, &store);
        let client = Client::connect(&server);
        start(&client, 7);
        write(2);
        assert_eq!(http::post(&server, "/v1/config/reload", b"").status, 201);
        assert_eq!(step(&client, 7), 2.0);
        let file = crate::support::repository::graph(folder.path());
        let text = std::fs::read_to_string(&file).unwrap();
        std::fs::write(&file, format!("{text}\n")).unwrap();
        write(1);
        assert_eq!(http::post(&server, "/v1/config/reload", b"").status, 201);
        refuses_other_files(&client, &ask(7));
        // It is not lost: who has the model can go on.
        assert_eq!(redis.ask::<String>(&format!("HGET {} n", record(7))), "2");
    }
}
