//! Recording of a client's bytes: its requests, and their responses.

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use h2::client::SendRequest;
use ovms::task::Task;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex},
    task::yield_now,
};

use crate::{
    cases::{Case, Place, validate},
    served::{Served, Side},
    wire::{Counter, Heard, Overheard, Step},
};

/// Size of the pipe: more than either side sends without waiting for the other.
const PIPE: usize = 16 << 20;

/// Flow-control window for the server, in bytes.
const WINDOW: u32 = 16 << 20;

/// Number of yields after which the other tasks of the thread are idle.
const TURNS: usize = 100;

/// Recorded connection of a client whose requests all succeeded.
pub(crate) struct Recorded {
    pub(crate) side: Side,
    /// Connection preface of the client, then its requests.
    pub(crate) steps: Vec<Step>,
    /// Bytes that the server wrote in response.
    pub(crate) answers: Vec<u8>,
}

/// Splits overheard bytes into steps.
struct Cutter {
    heard: Arc<Mutex<Heard>>,
    counter: Counter,
    /// Number of bytes of either side in the steps so far.
    sent: usize,
    answered: usize,
    steps: Vec<Step>,
}

impl Cutter {
    /// Ends a step, once all tasks are idle.
    async fn cut(&mut self) {
        for _ in 0..TURNS {
            yield_now().await;
        }
        let heard = self.heard.lock().expect("no panic holds it");
        self.steps.push(Step {
            sent: Bytes::copy_from_slice(&heard.sent[self.sent..]),
            answer: self.counter.count(&heard.answers[self.answered..]),
        });
        (self.sent, self.answered) = (heard.sent.len(), heard.answers.len());
    }

    fn done(self, side: Side) -> Recorded {
        let heard = self.heard.lock().expect("no panic holds it");
        Recorded {
            side,
            steps: self.steps,
            answers: heard.answers[..self.answered].to_vec(),
        }
    }
}

/// Records a connection with a number of requests.
pub(crate) fn record(served: &Served, case: Case, count: usize) -> Recorded {
    served.runtime.block_on(async {
        let (client, server) = duplex(PIPE);
        let (server, heard) = Overheard::new(server);
        let connection = served.connect(server, case.side());
        let cutter = Cutter {
            heard,
            counter: Counter::new(case.side()),
            sent: 0,
            answered: 0,
            steps: Vec::new(),
        };
        let recorded = match case.side() {
            Side::Rest => http(client, case, count, cutter).await,
            Side::Grpc => grpc(client, case, count, cutter).await,
        };
        connection.end().await;
        recorded
    })
}

/// Sends requests over HTTP/1, one after the other.
async fn http(mut client: DuplexStream, case: Case, count: usize, mut cutter: Cutter) -> Recorded {
    let request = case.http();
    // HTTP/1 has no greeting.
    cutter.cut().await;
    for _ in 0..count {
        client.write_all(&request).await.expect("the server reads");
        let mut answer = Vec::new();
        while !whole(&answer) {
            let read = client.read_buf(&mut answer).await;
            assert_ne!(read.expect("the server writes"), 0, "the server has closed");
        }
        assert!(
            answer.starts_with(b"HTTP/1.1 200 "),
            "{}",
            String::from_utf8_lossy(&answer)
        );
        cutter.cut().await;
    }
    cutter.done(case.side())
}

/// Returns whether a response over HTTP/1 is complete.
fn whole(answer: &[u8]) -> bool {
    const END: &[u8] = b"\r\n\r\n";
    let Some(end) = answer.windows(END.len()).position(|window| window == END) else {
        return false;
    };
    let head = String::from_utf8_lossy(&answer[..end]).to_lowercase();
    let length = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length: "))
        .and_then(|length| length.parse::<usize>().ok())
        .expect("an answer says its length");
    answer.len() >= end + END.len() + length
}

/// Sends requests over HTTP/2 in sequence, each a call or a message of one stream.
async fn grpc(client: DuplexStream, case: Case, count: usize, mut cutter: Cutter) -> Recorded {
    let (mut calls, connection) = h2::client::Builder::new()
        .initial_window_size(WINDOW)
        .initial_connection_window_size(WINDOW)
        .handshake::<_, Bytes>(client)
        .await
        .expect("the server speaks HTTP/2");
    let _connection = Task::spawn(async move {
        let _ = connection.await;
    });
    // What follows is more than may be sent before the server has said how much that is.
    cutter.cut().await;
    let place = |at| match at {
        0 => Place::First,
        _ => Place::Next,
    };
    if case.streams() {
        let (answer, mut messages) = calls
            .send_request(case.head(), false)
            .expect("the connection is open");
        let mut answer = Some(answer);
        let mut answers = None;
        for at in 0..count {
            messages
                .send_data(case.message(place(at)), false)
                .expect("the stream is open");
            if let Some(answer) = answer.take() {
                let answer = answer.await.expect("the stream is answered");
                answers = Some(answer.into_body());
            }
            let body: &mut h2::RecvStream = answers.as_mut().expect("the first answer sets it");
            let data = body.data().await.expect("the stream is open");
            let data = data.expect("an answer");
            validate(&data);
            release(body, &data);
            cutter.cut().await;
        }
        return cutter.done(case.side());
    }
    for at in 0..count {
        call(&mut calls, case, place(at)).await;
        cutter.cut().await;
    }
    if case.is_sequence() {
        // It begins again when this is replayed.
        call(&mut calls, case, Place::Last).await;
    }
    cutter.done(case.side())
}

/// Makes a call with one message each way, which must succeed.
async fn call(calls: &mut SendRequest<Bytes>, case: Case, place: Place) {
    let (answer, mut message) = calls
        .send_request(case.head(), false)
        .expect("the connection is open");
    message
        .send_data(case.message(place), true)
        .expect("the call is open");
    let mut body = answer.await.expect("the call is answered").into_body();
    while let Some(data) = body.data().await {
        release(&mut body, &data.expect("an answer"));
    }
    let trailers = body.trailers().await.expect("the answer is whole");
    let trailers = trailers.expect("an answer that is no refusal has some");
    assert_eq!(trailers["grpc-status"], "0", "{trailers:?}");
}

/// Releases flow-control capacity.
fn release(body: &mut h2::RecvStream, data: &Bytes) {
    let room = body.flow_control();
    room.release_capacity(data.len()).expect("it was received");
}
