//! A listener between a client and a server, which records the client's bytes.

use std::{
    io::{self, Read, Write},
    net::{Shutdown, TcpListener, TcpStream},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
};

use super::thread;

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
                    copies.extend(join(client, server, &sent));
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

fn join(client: TcpStream, server: TcpStream, sent: &Arc<Mutex<Vec<u8>>>) -> [JoinHandle<()>; 2] {
    let from_client = client.try_clone().expect("sockets can be shared");
    let to_server = server.try_clone().expect("sockets can be shared");
    let sent = Arc::clone(sent);
    let there = thread(move || {
        // Whichever end fails, that is the end of the connection.
        let _ = record(from_client, &to_server, &sent);
        let _ = to_server.shutdown(Shutdown::Write);
    });
    let back = thread(move || {
        let _ = io::copy(&mut &server, &mut &client);
        let _ = client.shutdown(Shutdown::Write);
    });
    [there, back]
}

fn record(mut from: TcpStream, mut to: &TcpStream, sent: &Mutex<Vec<u8>>) -> io::Result<()> {
    let mut buffer = [0; 4096];
    loop {
        let length = from.read(&mut buffer)?;
        if length == 0 {
            return Ok(());
        }
        // First, so that what is answered is in it.
        sent.lock().unwrap().extend_from_slice(&buffer[..length]);
        to.write_all(&buffer[..length])?;
    }
}
