//! Fuzz targets of what comes before a protocol: framing, compression, headers, and calls that ask for little.

use std::{convert::Infallible, io::Read, net::IpAddr, sync::LazyLock, time::Duration};

use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Uri};
use bytes::Bytes;
use http_body_util::StreamBody;
use hyper::body::Frame;
use tonic::Code;

use super::{
    body::BodyLimits,
    cross_origin::{AllowedHosts, check_host},
    deadline,
    expand::{Coding, expand},
    guard::{Schemes, secret},
    idempotency::IdempotencyKey,
    messages::{PREFIX, Reader},
    priority,
    unary::MAX_QUERY_WEIGHT,
};
use crate::{
    budget::Budget,
    config::{Config, FlagEnvironment, Flags},
    error::ErrorKind,
    fuzzing::{BUDGET, check_charge, check_error, choice},
    proto::{
        kserve::{
            ModelMetadataRequest, ModelReadyRequest, ModelStatisticsRequest,
            RepositoryIndexRequest, SystemSharedMemoryRegisterRequest,
        },
        tensorflow_serving::{GetModelMetadataRequest, GetModelStatusRequest},
    },
    trace::check_headers,
};

/// Maximum size of a message or body in bytes.
const MAX_MESSAGE: usize = 1 << 18;

/// Hosts of a server that listens on a loopback address.
static HOSTS: LazyLock<AllowedHosts> = LazyLock::new(|| {
    let flags = Flags {
        model_name: Some("m".to_owned()),
        model_path: Some("/m".into()),
        rest_port: 8000,
        rest_bind_address: Some("127.0.0.1".to_owned()),
        ..Flags::default()
    };
    let config = Config::from_flags(flags, &FlagEnvironment::default());
    AllowedHosts::new(&config.expect("the flags are valid").settings)
});

thread_local! {
    static RUNTIME: tokio::runtime::Runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .expect("a runtime without sockets needs nothing");
}

fn wait<T>(future: impl Future<Output = T>) -> T {
    RUNTIME.with(|runtime| runtime.block_on(future))
}

/// The messages of a call, which come in pieces of any size. They are those that the bytes have, however these are cut.
pub(crate) fn messages(data: &[u8]) {
    let (kind, wire) = choice(data);
    let size = match kind & 0x3f {
        0 => wire.len().max(1),
        size => usize::from(size),
    };
    let piece = |bytes| Ok::<_, Infallible>(Frame::data(Bytes::copy_from_slice(bytes)));
    let pieces = wire.chunks(size).map(piece);
    let mut request = Request::new(StreamBody::new(futures::stream::iter(pieces)));
    let encoding = match kind & 0xc0 {
        0 => None,
        0x80 => Some("gzip"),
        0x40 => Some("deflate"),
        _ => Some("snappy"),
    };
    if let Some(encoding) = encoding {
        let encoding = HeaderValue::from_static(encoding);
        request.headers_mut().insert("grpc-encoding", encoding);
    }
    let budget = Budget::new(BUDGET);
    let limits = BodyLimits {
        message_size: MAX_MESSAGE,
        pause: Duration::from_secs(5),
        rate: 0,
        budget: budget.clone(),
    };
    let mut reader = Reader::new(request, &limits).expect("the budget has room");
    let mut rest = wire;
    let end = loop {
        // A large one waits for the one before it, which is gone by then.
        match wait(reader.next()) {
            Ok(Some(message)) => {
                let (is_packed, sent) = framed(&mut rest).expect("a message was whole");
                assert!(is_packed || message.bytes == sent);
                assert!(message.bytes.len() <= MAX_MESSAGE);
            }
            Ok(None) => break None,
            Err(status) => break Some(status),
        }
    };
    match end {
        None => assert!(rest.is_empty(), "{} bytes are left", rest.len()),
        Some(status) => assert!(!status.message().is_empty() && status.code() != Code::Unknown),
    }
    drop(reader);
    assert_eq!(budget.charged(), 0);
}

/// Takes a message with its head off what was sent.
fn framed<'a>(rest: &mut &'a [u8]) -> Option<(bool, &'a [u8])> {
    let (head, after) = rest.split_first_chunk::<PREFIX>()?;
    let [flag, length @ ..] = *head;
    let (message, after) = after.split_at_checked(u32::from_be_bytes(length) as usize)?;
    *rest = after;
    Some((flag == 1, message))
}

/// A compressed body: the same as what any other reader of gzip, or of zlib, makes of it.
pub(crate) fn gzip(data: &[u8]) {
    check_expanded(
        data,
        Coding::Gzip,
        flate2::bufread::MultiGzDecoder::new(data),
    );
    check_expanded(
        data,
        Coding::Deflate,
        flate2::bufread::ZlibDecoder::new(data),
    );
}

fn check_expanded(data: &[u8], coding: Coding, mut other: impl Read) {
    let budget = Budget::new(BUDGET);
    let body = Bytes::copy_from_slice(data);
    match wait(expand(body, coding, MAX_MESSAGE, &budget)) {
        Ok(expanded) => {
            assert!(expanded.len() <= MAX_MESSAGE && budget.charged() >= expanded.len());
            let mut expected = Vec::new();
            other.read_to_end(&mut expected).expect("it is compressed");
            assert_eq!(expanded, expected);
        }
        Err(error) => {
            check_error(&error);
            let kinds = [
                ErrorKind::InvalidArgument,
                ErrorKind::TooLarge,
                ErrorKind::Exhausted,
            ];
            assert!(kinds.contains(&error.kind()), "{error}");
        }
    }
    assert_eq!(budget.charged(), 0);
}

/// Headers, a line each, of a request for a path of management. A page of another origin is never let in.
pub(crate) fn headers(data: &[u8]) {
    let mut headers = HeaderMap::new();
    for line in data.split(|byte| *byte == b'\n').take(64) {
        let colon = line.iter().position(|byte| *byte == b':');
        let (name, value) = line.split_at(colon.unwrap_or(line.len()));
        let name = HeaderName::from_bytes(name);
        let value = HeaderValue::from_bytes(value.get(1..).unwrap_or_default().trim_ascii());
        if let (Ok(name), Ok(value)) = (name, value) {
            headers.append(name, value);
        }
    }
    if let Some(limit) = deadline::of_headers(&headers) {
        assert!(limit < Duration::from_secs(3600 * 100_000_000));
    }
    let length = headers.values().map(|value| value.len()).max();
    for schemes in [Schemes::Bearer, Schemes::BearerOrBasic] {
        if let Ok(Some(secret)) = secret(&headers, schemes) {
            assert!(Some(secret.len()) <= length);
        }
    }
    let _ = priority::of_headers(&headers);
    check_headers(&headers);
    let key = IdempotencyKey::of(&headers);
    assert!(key.text().is_none_or(|key| key.is_ascii()));
    let uri = Uri::from_static("/v1/config");
    match HOSTS.check(&Method::POST, &uri, &headers) {
        Ok(()) => {
            for origin in headers.get_all("origin") {
                let origin = origin.to_str().expect("an own page has an origin of text");
                let origin: Uri = origin.parse().expect("an own page has a URL");
                assert!(origin.host().is_some_and(is_loopback), "{origin}");
            }
        }
        Err(error) => assert_eq!(error.kind(), ErrorKind::Forbidden),
    }
    let mut request = Request::new(());
    *request.headers_mut() = headers;
    if let Err(error) = check_host(&request) {
        check_error(&error);
    }
}

fn is_loopback(host: &str) -> bool {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    match bare.parse::<IpAddr>() {
        Ok(address) => address.to_canonical().is_loopback(),
        Err(_) => host.trim_end_matches('.').eq_ignore_ascii_case("localhost"),
    }
}

/// Messages that ask for little. Decoded, each takes what it is charged for at most.
pub(crate) fn queries(data: &[u8]) {
    let (kind, wire) = choice(data);
    match kind % 7 {
        0 => query::<ModelMetadataRequest>(wire),
        1 => query::<ModelReadyRequest>(wire),
        2 => query::<ModelStatisticsRequest>(wire),
        3 => query::<RepositoryIndexRequest>(wire),
        4 => query::<SystemSharedMemoryRegisterRequest>(wire),
        5 => query::<GetModelMetadataRequest>(wire),
        _ => query::<GetModelStatusRequest>(wire),
    }
}

fn query<Q: prost::Message + Default>(wire: &[u8]) {
    /// Charge of a call besides.
    const CALL: usize = super::messages::CALL;
    let mut decoded = None;
    let used = allocation_counter::measure(|| decoded = Q::decode(wire).ok());
    check_charge(&used, CALL + MAX_QUERY_WEIGHT * wire.len());
    if let Some(query) = decoded {
        let again = Q::decode(&*query.encode_to_vec()).expect("what is written can be read");
        assert_eq!(again.encoded_len(), query.encoded_len());
    }
}
