//! A bare service over HTTP/1 with axum: it answers each request with the bytes that the server has for one of `dummy`, head
//! and body, and can run a raw inference for each.

use std::sync::{Arc, Mutex};

use axum::{
    handler::HandlerWithoutStateExt as _,
    http::{HeaderName, HeaderValue, header},
    serve::ListenerExt as _,
};
use bytes::Bytes;
use tokio::net::TcpListener;

use crate::{cells, raw};

/// JSON of the answer, before its numbers.
const HEAD: &str = r#"{"model_name":"dummy","model_version":"1","outputs":[{"name":"a","shape":[1,10],"datatype":"FP32","parameters":{"binary_data_size":40}}]}"#;

/// Length of [`HEAD`].
const HEAD_LENGTH: &str = "137";

/// Serves on a port of loopback until killed, with an inference of a model's folder for each request if there is one.
pub(crate) fn run(port: u16, model: Option<(&str, &str)>) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .expect("threads can be had");
    let inference =
        model.map(|(library, model)| Arc::new(Mutex::new(raw::warm_request(library, model))));
    let answer = answer();
    // The body is read to its end, as every service has to.
    let handler = move |_: Bytes| {
        let (inference, answer) = (inference.clone(), answer.clone());
        async move {
            if let Some(inference) = inference {
                let mut inference = inference.lock().expect("no inference panics");
                inference.infer().expect("an inference");
            }
            (headers(), answer)
        }
    };
    runtime.block_on(async {
        let listener = TcpListener::bind(("127.0.0.1", port)).await;
        let listener = listener.expect("the port is free").tap_io(|stream| {
            stream.set_nodelay(true).expect("a socket has options");
        });
        let served = axum::serve(listener, handler.into_make_service()).await;
        served.expect("loopback stays");
    });
}

/// Returns the headers of the answer; its length and the date are added by the library.
fn headers() -> [(HeaderName, HeaderValue); 5] {
    [
        (header::CONTENT_TYPE, "application/json"),
        (
            HeaderName::from_static("inference-header-content-length"),
            HEAD_LENGTH,
        ),
        (header::ACCESS_CONTROL_ALLOW_ORIGIN, "*"),
        (header::ACCESS_CONTROL_ALLOW_METHODS, "*"),
        (header::ACCESS_CONTROL_ALLOW_HEADERS, "*"),
    ]
    .map(|(name, value)| (name, HeaderValue::from_static(value)))
}

/// Returns the body of the answer: `dummy` adds one to each number.
fn answer() -> Bytes {
    assert_eq!(HEAD.len().to_string(), HEAD_LENGTH);
    let numbers = cells::numbers(10).map(|number| number + 1.0);
    let mut body = HEAD.as_bytes().to_vec();
    body.extend(numbers.flat_map(f32::to_le_bytes));
    body.into()
}
