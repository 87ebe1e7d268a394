//! Packets in the queues of graphs.

use std::time::Duration;

use super::memory::{Growth, WITH_BUDGET};
use crate::support::{
    Server, cli,
    graphs::{add, graph, node},
    grpc::{Grpc, input, raw},
    pipelines::Config,
    server::{free_ports, on},
    streams::{Came, Talk},
};

#[test]
fn packets_that_wait_for_another_input_count() {
    let mut config = Config::of(&[]);
    let pass = node("PassThroughCalculator", "A:a B:b", "A:c B:d", "");
    let two = graph(
        "OVTENSOR_A:a OVTENSOR_B:b",
        "OVTENSOR_A:c OVTENSOR_B:d",
        &[pass],
    );
    add(&mut config, "two", &two);
    let ports = free_ports();
    let mut command = cli::command();
    command.args(["serve", WITH_BUDGET, "--config_path"]);
    // What is given back is not the server's any more, and no longer kept for what comes next for a moment.
    command.arg(config.write()).env("MIMALLOC_PURGE_DELAY", "0");
    let server = Server::spawn(command.args(on(ports)), ports);
    server.wait_ready();
    let client = Grpc::connect(&server);
    let mut both = raw("two", "a", "UINT8", &[1], &[7]);
    both.inputs.push(input("b", "UINT8", &[1]));
    both.raw_input_contents.push(vec![8].into());
    client.answered(both.clone());
    let growth = Growth::of(&server);
    let large = raw("two", "a", "UINT8", &[1 << 20], &vec![0; 1 << 20]);
    let mut refused = 0;
    // 20 x 20 MiB, of which none finds its other half.
    let mut talks: Vec<Talk<'_>> = Vec::new();
    for _ in 0..20 {
        talks.push(Talk::open(&client));
        let talk = talks.last_mut().unwrap();
        let mut sent = 0;
        while sent < 20 && talk.try_send(large.clone(), Duration::from_secs(5)) {
            sent += 1;
        }
        if sent < 20 {
            let Came::End(text) = talk.next() else {
                panic!("it is over");
            };
            assert_eq!(
                text,
                "ResourceExhausted: Server is overloaded - requests and answers in flight: the most bytes allowed are 67108864, see --max-bytes-in-flight; try again later"
            );
            refused += 1;
        }
    }
    assert!(refused > 10, "{refused}");
    growth.check();
    drop(talks);
    let grpc = Grpc::connect(&server);
    crate::support::eventually("there is room again", || grpc.infer(both.clone()).ok());
}
