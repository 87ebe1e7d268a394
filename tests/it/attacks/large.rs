//! One body or message that is nearly as large as the budget.

use super::memory::{Growth, WITH_BUDGET};
use crate::support::{
    Server,
    grpc::{Grpc, raw},
    http::post,
};

/// Length of the message, which leaves room in the budget for its overhead.
const LENGTH: usize = 60_000_000;

#[test]
fn a_large_message_takes_its_size_once() {
    let server = Server::start_with("dummy", &[WITH_BUDGET]);
    let grpc = Grpc::connect(&server);
    grpc.check_serves();
    let growth = Growth::of(&server);
    // Of the right form, and refused for its shape once it is decoded.
    let length = i64::try_from(LENGTH / 4).expect("it is small");
    let large = raw("dummy", "b", "FP32", &[1, length], &vec![0; LENGTH]);
    let refused = grpc.refused(large);
    assert!(refused.starts_with("InvalidArgument: "), "{refused}");
    growth.check();
    let answer = post(&server, "/v2/models/dummy/infer", &vec![b' '; LENGTH]);
    assert_eq!(answer.status, 412, "{}", answer.text());
    growth.check();
}
