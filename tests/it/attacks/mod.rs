//! Attacks: what one client does to hurt others, each with the figure that bounds it.

mod browsers;
mod claims;
mod declared;
mod disclosure;
mod fetches;
mod gzip;
mod http1;
mod http2;
mod idle;
mod images;
mod large;
mod log;
mod management;
mod memory;
mod paths;
mod pickle;
mod poison;
mod queues;
mod recursion;
mod small;
mod trailers;
mod watchers;
mod windows;

use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use crate::support::Server;

/// A server of the model `dummy` with metrics, for tests that read none.
pub(super) static WITH_METRICS: LazyLock<Server> =
    LazyLock::new(|| Server::start_with("dummy", &["--metrics_enable"]).kept(None));

/// Returns a server with room for 4 MB and one host for browsers, for a test that takes all of it.
fn small() -> MutexGuard<'static, Server> {
    static SMALL: LazyLock<Mutex<Server>> = LazyLock::new(|| {
        let flags = [
            "--max_bytes_in_flight=4000000",
            "--allowed_hosts=ovms.example",
        ];
        Mutex::new(Server::start_with("dummy", &flags).kept(None))
    });
    SMALL.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Makes a field of bytes: a message, or a text.
fn field(number: u8, contents: &[u8]) -> Vec<u8> {
    let mut field = vec![number << 3 | 2];
    prost::encoding::encode_varint(contents.len() as u64, &mut field);
    field.extend_from_slice(contents);
    field
}
