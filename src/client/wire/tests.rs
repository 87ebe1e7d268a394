//! Calls to servers of HTTP/2 that only do what a test needs.

use std::{
    future::{pending, poll_fn},
    time::Duration,
};

use bytes::Bytes;
use futures::future::join;
use h2::{
    Reason,
    server::{Connection, SendResponse, handshake},
};
use hyper::{HeaderMap, Response, header::HeaderValue};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::oneshot,
};

use super::{Wire, WireRequest};
use crate::{
    client::{Address, Api, ClientError, ClientOptions},
    task::Task,
};

/// Connection of a server.
type Served = Connection<TcpStream, Bytes>;

/// Makes a listener, connections to it, and a request.
async fn listen(timeout: Duration) -> (TcpListener, Wire, WireRequest) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let options = ClientOptions {
        address: Address::parse(&format!("127.0.0.1:{port}"), Api::KserveGrpc).unwrap(),
        api: Api::KserveGrpc,
        timeout,
        headers: HeaderMap::new(),
        concurrency: 1,
        tls: None,
    };
    let message = Bytes::from_static(&[0; 5]);
    let request = WireRequest::post(&options, "/a.Service/Method", HeaderMap::new(), message);
    (listener, Wire::new(&options).unwrap(), request.unwrap())
}

async fn accepted(listener: &TcpListener) -> Served {
    let (socket, _) = listener.accept().await.unwrap();
    handshake(socket).await.unwrap()
}

async fn call(connection: &mut Served) -> SendResponse<Bytes> {
    connection.accept().await.unwrap().unwrap().1
}

fn answer(mut call: SendResponse<Bytes>) {
    let mut body = call.send_response(Response::new(()), false).unwrap();
    let status = (
        "grpc-status".parse().unwrap(),
        HeaderValue::from_static("0"),
    );
    body.send_trailers(HeaderMap::from_iter([status])).unwrap();
}

/// Moves the bytes of a connection until it ends.
async fn moved(connection: &mut Served) {
    // Whichever end closes it first.
    let _ = poll_fn(|context| connection.poll_closed(context)).await;
}

/// Runs a server beside a client.
async fn beside(server: impl Future<Output = ()>, client: impl Future<Output = ()>) {
    let server = async {
        server.await;
        pending::<()>().await;
    };
    tokio::select! {
        () = server => {}
        () = client => {}
    }
}

const MAX_WAIT: Duration = Duration::from_secs(30);

#[tokio::test]
async fn a_connection_that_takes_no_more_calls_finishes_its_own() {
    let (listener, wire, request) = listen(MAX_WAIT).await;
    let (release, released) = oneshot::channel();
    let server = async {
        let mut first = accepted(&listener).await;
        let slow = call(&mut first).await;
        let quick = call(&mut first).await;
        // The client hears of it before the answer.
        first.graceful_shutdown();
        answer(quick);
        let first = async {
            tokio::select! {
                () = moved(&mut first) => panic!("the connection ended with a call on it"),
                released = released => released.unwrap(),
            }
            answer(slow);
            moved(&mut first).await;
        };
        let second = async {
            let mut second = accepted(&listener).await;
            answer(call(&mut second).await);
            moved(&mut second).await;
        };
        join(first, second).await;
    };
    let client = async {
        let slow = wire.send(0, &request);
        let others = async {
            wire.send(1, &request).await.unwrap();
            wire.send(1, &request).await.unwrap();
            release.send(()).unwrap();
        };
        let (slow, ()) = join(slow, others).await;
        slow.unwrap();
    };
    beside(Box::pin(server), Box::pin(client)).await;
}

#[tokio::test]
async fn a_call_that_is_refused_unprocessed_is_made_once_more() {
    for (refusals, is_answered) in [(1, true), (2, false)] {
        let (listener, wire, request) = listen(MAX_WAIT).await;
        let (seen, mut calls) = tokio::sync::mpsc::unbounded_channel();
        let server = async {
            let mut connections = Vec::new();
            for number in 1.. {
                let mut connection = accepted(&listener).await;
                let mut call = call(&mut connection).await;
                seen.send(number).unwrap();
                match number <= refusals {
                    true => call.send_reset(Reason::REFUSED_STREAM),
                    false => answer(call),
                }
                connections.push(Task::spawn(async move { moved(&mut connection).await }));
            }
        };
        let client = async {
            let sent = wire.send(0, &request).await;
            match is_answered {
                true => sent.unwrap(),
                false => assert!(matches!(sent, Err(ClientError::Closed { .. })), "{sent:?}"),
            }
        };
        beside(Box::pin(server), Box::pin(client)).await;
        let mut most = 0;
        while let Ok(number) = calls.try_recv() {
            most = number;
        }
        assert_eq!(most, 2);
    }
}

#[tokio::test]
async fn a_connection_without_an_answer_in_time_is_not_used_again() {
    let (listener, wire, request) = listen(Duration::from_secs(1)).await;
    let server = async {
        let mut first = accepted(&listener).await;
        let _unanswered = call(&mut first).await;
        let silent = async {
            // Everything that comes later is left unanswered as well.
            let mut calls = Vec::new();
            while let Some(Ok((_, call))) = first.accept().await {
                calls.push(call);
            }
        };
        let second = async {
            let mut second = accepted(&listener).await;
            answer(call(&mut second).await);
            moved(&mut second).await;
        };
        join(silent, second).await;
    };
    let client = async {
        let sent = wire.send(0, &request).await;
        assert!(matches!(sent, Err(ClientError::Timeout { .. })), "{sent:?}");
        wire.send(0, &request).await.unwrap();
    };
    beside(Box::pin(server), Box::pin(client)).await;
}
