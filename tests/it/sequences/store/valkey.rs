//! Valkey as the store: what Redis does for sequences, it does.

use super::{MODEL, STEP, ask, refused, serve, start, step};
use crate::support::{
    Server,
    redis::{DURABLE, Redis},
    sequence::{Client, Wire},
};

#[test]
fn sequences_go_from_server_to_server() {
    let mut valkey = found!(Redis::valkey(&DURABLE));
    let store = valkey.url().replace("redis://", "valkey://");
    let [mut first, second]: [Server; 2] = serve(MODEL, &store, &STEP);
    let clients = [&first, &second].map(Client::connect);
    for (wire, id) in Wire::ALL.into_iter().zip(1..) {
        assert_eq!(clients[0].total(wire, &ask(id).start()), (id, 1.0));
        for (place, total) in [(1, 2.0), (0, 3.0), (1, 4.0)] {
            // The second time it is the stored answer.
            for place in [place, 1 - place] {
                let keyed = ask(id).key(&format!("{id} {total}"));
                assert_eq!(clients[place].total(wire, &keyed), (id, total));
            }
        }
    }
    // A store that starts again has everything.
    valkey.crash();
    valkey.again();
    assert_eq!(step(&clients[0], 1), 5.0);
    drop(clients);
    first.signal("KILL");
    first.wait();
    let client = Client::connect(&second);
    assert_eq!(step(&client, 1), 6.0);
    assert_eq!(client.total(Wire::Raw, &ask(1).end()), (1, 7.0));
    assert_eq!(refused(&client, 1), Wire::Raw.unknown());
}

#[test]
fn a_store_that_forgets_is_noticed() {
    let mut valkey = found!(Redis::valkey(&[]));
    let [server] = serve(MODEL, &valkey.url(), &STEP);
    server.wait_log("appendfsync");
    let client = Client::connect(&server);
    start(&client, 1);
    valkey.crash();
    valkey.again();
    // Not even that there was a sequence.
    assert_eq!(refused(&client, 1), Wire::Raw.unknown());
    start(&client, 1);
    assert_eq!(step(&client, 1), 2.0);
}
