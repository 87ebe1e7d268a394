//! A listener between a client and a server, which records the client's bytes, and may change the server's.

use std::{
    io::{Read, Write},
    net::{Shutdown, TcpListener, TcpStream},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
};

use super::thread;

/// Change to bytes of the server.
type Change = dyn Fn(&mut [u8]) + Send + Sync;

/// A relay to one port; ends when dropped, after both ends have closed their connections.
pub(crate) struct Relay {
    pub(crate) port: u16,
    sent: Arc<Mutex<Vec<u8>>>,
    ends: Arc<AtomicBool>,
    listener: Option<JoinHandle<()>>,
}

impl Relay {
    /// Listens, and connects to a port of this machine for each connection.
    pub(crate) fn to(server: u16) -> Self {
        Self::changing(server, |_| {})
    }

    /// Starts a relay that changes what the server sends, as it comes.
    pub(crate) fn changing(
        server: u16,
        change: impl Fn(&mut [u8]) + Send + Sync + 'static,
    ) -> Self {
        let change: Arc<Change> = Arc::new(change);
        let listener = TcpListener::bind("127.0.0.1:0").expect("the system has a port");
        let port = listener.local_addr().expect("it is bound").port();
        let sent = Arc::new(Mutex::new(Vec::new()));
        let ends = Arc::new(AtomicBool::new(false));
        let listener = thread({
            let (sent, ends) = (Arc::clone(&sent), Arc::clone(&ends));
            move || {
                let mut copies = Vec::new();
                for client in listener.incoming().map_while(Result::ok) {
                    if ends.load(Ordering::Relaxed) {
                        break;
                    }
                    let server = TcpStream::connect(("127.0.0.1", server)).expect("it listens");
                    copies.extend(join(client, server, &sent, &change));
                }
                for copy in copies {
                    let _ = copy.join();
                }
            }
        });
        Self {
            port,
            sent,
            ends,
            listener: Some(listener),
        }
    }

    /// Returns the bytes that clients have sent so far.
    pub(crate) fn sent(&self) -> Vec<u8> {
        self.sent.lock().unwrap().clone()
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        // Wakes the listener.
        let _ = TcpStream::connect(("127.0.0.1", self.port));
        if let Some(listener) = self.listener.take() {
            let _ = listener.join();
        }
    }
}

fn join(
    client: TcpStream,
    server: TcpStream,
    sent: &Arc<Mutex<Vec<u8>>>,
    change: &Arc<Change>,
) -> [JoinHandle<()>; 2] {
    let from_client = client.try_clone().expect("sockets can be shared");
    let to_server = server.try_clone().expect("sockets can be shared");
    let (sent, change) = (Arc::clone(sent), Arc::clone(change));
    let there = thread(move || {
        // Whichever end fails, that is the end of the connection.
        // Recorded first, so that what is answered is in it.
        pass(from_client, &to_server, |bytes| {
            sent.lock().unwrap().extend_from_slice(bytes);
        });
        let _ = to_server.shutdown(Shutdown::Write);
    });
    let back = thread(move || {
        pass(server, &client, |bytes| change(bytes));
        let _ = client.shutdown(Shutdown::Write);
    });
    [there, back]
}

/// Passes bytes on until an end fails or has no more, each after something was done with it.
fn pass(mut from: TcpStream, mut to: &TcpStream, each: impl Fn(&mut [u8])) {
    let mut buffer = vec![0; 64 << 10];
    while let Ok(length @ 1..) = from.read(&mut buffer) {
        each(&mut buffer[..length]);
        if to.write_all(&buffer[..length]).is_err() {
            return;
        }
    }
}
