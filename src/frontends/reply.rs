//! Errors as each protocol has them, and the one place where a request's error is logged.

use std::{io::Write, time::Duration};

use axum::{
    body::Body,
    http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use flate2::{Compression, write::GzEncoder};
use serde::Serialize;

use super::expand::is_gzip;
use crate::{
    budget::{Budget, OVERHEAD},
    error::{Error, MAX_TEXT_LEN, Result, chain, whole_milliseconds},
    task,
    tensor::DataType,
    text::cut_bytes,
};

/// The longest text of an error in a body, in bytes: all that a client gets of a handler's exception.
const MAX_BODY_TEXT_LEN: usize = 16 << 10;

/// The text is in a header: percent-encoding may make three bytes of each, and clients refuse headers of more than 8 KiB.
impl From<Error> for tonic::Status {
    fn from(error: Error) -> Self {
        log(&error);
        let mut status = Self::new(
            error.kind().grpc(),
            cut_bytes(error.message(), MAX_TEXT_LEN),
        );
        if let Some(wait) = error.wait() {
            let (seconds, milliseconds) = retry_values(wait);
            let metadata = status.metadata_mut();
            metadata.insert("retry-after", seconds.into());
            // As in "gRPC Retry Design": clients with a retry policy wait that long.
            metadata.insert("grpc-retry-pushback-ms", milliseconds.into());
        }
        status
    }
}

/// An HTTP response with a body of `{"error": text}`.
impl IntoResponse for Error {
    fn into_response(self) -> Response {
        let status =
            StatusCode::from_u16(self.kind().http()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut response = json(status, error_object(&self));
        // What is busy, starting, or out of memory is so for a moment; a client that waits none would make it worse.
        let is_busy = status == StatusCode::SERVICE_UNAVAILABLE;
        let wait = self.wait().or(is_busy.then_some(Duration::from_secs(1)));
        if let Some(wait) = wait {
            let (seconds, _) = retry_values(wait);
            response
                .headers_mut()
                .insert(header::RETRY_AFTER, seconds.into());
        }
        if self.leaves_body() {
            // Else clients would send their next request on a connection that ends (RFC 9112, 9.6).
            let headers = response.headers_mut();
            headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        response
    }
}

/// Returns a time to wait in whole seconds (RFC 9110, 10.2.3) and in milliseconds, rounded up.
fn retry_values(wait: Duration) -> (u64, u64) {
    let milliseconds = whole_milliseconds(wait);
    (milliseconds.div_ceil(1000).max(1), milliseconds)
}

/// Logs an error, and writes it as `{"error": text}`; a text that repeats much of what a client has sent is cut.
pub(super) fn error_object(error: &Error) -> String {
    log(error);
    let text = cut_bytes(error.message(), MAX_BODY_TEXT_LEN);
    serde_json::json!({ "error": text }).to_string()
}

/// Makes an HTTP response with a JSON body.
pub(super) fn json(status: StatusCode, body: impl Into<Body>) -> Response {
    let mut response = Response::new(body.into());
    *response.status_mut() = status;
    response.headers_mut().insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("application/json"),
    );
    response
}

/// Makes a good answer of what has a JSON form.
pub(super) fn serialized(value: &impl Serialize) -> Result<Response> {
    serde_json::to_vec(value)
        .map(|body| json(StatusCode::OK, body))
        .map_err(|error| Error::internal("Internal server error").with_source(error))
}

/// Maximum memory of elements as JSON while they are written, as a multiple of their bytes: one takes as many characters
/// as this is half of, in a buffer that doubles.
const fn json_growth(dtype: DataType) -> usize {
    match dtype {
        // `-0.000012345679,`, of two bytes and of four.
        DataType::F16 | DataType::Bf16 => 17,
        DataType::F32 => 9,
        // `false,`, and a character that is escaped.
        DataType::Bool | DataType::String => 12,
        // `-128,`.
        DataType::I8 => 10,
        _ => 8,
    }
}

/// The same of elements that are binary data behind the JSON.
const BINARY_GROWTH: usize = 4;

/// Returns the memory that an output may take while it is written: as JSON, or as binary data.
pub(super) fn output_memory(dtype: DataType, bytes: usize, is_binary: bool) -> usize {
    bytes.saturating_mul(match is_binary {
        true => BINARY_GROWTH,
        false => json_growth(dtype),
    })
}

/// A good answer with a JSON body, and perhaps binary data behind it, before it is handed to the
/// server.
pub(super) struct Whole {
    pub(super) body: Vec<u8>,
    pub(super) headers: Vec<(HeaderName, HeaderValue)>,
}

/// Writes an answer of tensors of so many bytes, packed if its client wants that, in so much memory at most. The body has
/// the charge for it, as much as it takes.
///
/// # Errors
///
/// Fails if the answer cannot be written, or the budget has no room for it.
pub(super) async fn written(
    request: &HeaderMap,
    budget: &Budget,
    bytes: usize,
    memory: usize,
    write: impl FnOnce() -> Result<Whole> + Send + 'static,
) -> Result<Response> {
    let compress = wished(request);
    let mut charge = budget.charge(memory)?;
    let write = move || {
        let mut whole = write()?;
        if compress {
            pack(&mut whole);
        }
        let size = whole.body.capacity() + OVERHEAD;
        charge.grow(size)?;
        charge.shrink(size);
        let mut response = json(StatusCode::OK, charge.keep(whole.body.into()));
        for (name, value) in whole.headers {
            response.headers_mut().insert(name, value);
        }
        Ok(response)
    };
    task::sized("encode", bytes, write).await
}

/// Errors of clients are logged at a low level, ours with their causes.
fn log(error: &Error) {
    if error.kind().http() == 500 && !error.is_logged() {
        tracing::error!("{}", chain(error));
    } else {
        tracing::debug!("{}", chain(error));
    }
}

/// The least bytes that are packed. What fits in one packet gets there no sooner, and in a profile
/// of tiny requests the packer took more than a quarter of the processor time.
const LEAST: usize = 1400;

/// Returns whether a client wants its answer packed: it takes gzip (RFC 9110, 12.5.3), and nothing else or has packed its request.
pub(super) fn wished(headers: &HeaderMap) -> bool {
    let (mut gzip, mut identity, mut any) = (None, None, None);
    let mut has_others = false;
    for value in headers.get_all(header::ACCEPT_ENCODING) {
        for coding in value.to_str().unwrap_or_default().split(',') {
            let (name, parameters) = coding.split_once(';').unwrap_or((coding, ""));
            let (name, weight) = (name.trim(), weight(parameters));
            if is_gzip(name.as_bytes()) {
                gzip = Some(weight);
            } else if name.eq_ignore_ascii_case("identity") {
                identity = Some(weight);
            } else {
                any = (name == "*").then_some(weight).or(any);
                has_others |= !name.is_empty() && weight > 0.0;
            }
        }
    }
    let weight = gzip.or(any).unwrap_or_default();
    let plain = identity.or(any.filter(|&any| any == 0.0));
    let is_packed = || {
        let sent = headers.get(header::CONTENT_ENCODING);
        sent.is_some_and(|coding| is_gzip(coding.as_bytes()))
    };
    weight > 0.0
        && match plain {
            Some(0.0) => true,
            plain => {
                let plain = plain.unwrap_or_default();
                (weight > plain && !has_others) || (weight >= plain && is_packed())
            }
        }
}

/// Reads the weight among the parameters of a coding. Without one it is 1, and one that is no number from 0 to 1 is not followed.
fn weight(parameters: &str) -> f32 {
    let pairs = parameters
        .split(';')
        .filter_map(|pair| pair.split_once('='));
    let mut weights = pairs.filter(|(name, _)| name.trim().eq_ignore_ascii_case("q"));
    weights.next().map_or(1.0, |(_, weight)| {
        let weight = weight.trim().parse().ok();
        weight
            .filter(|weight| (0.0..=1.0).contains(weight))
            .unwrap_or_default()
    })
}

/// Packs the body of an answer, unless it is too small to gain anything.
pub(super) fn pack(reply: &mut Whole) {
    if reply.body.len() < LEAST {
        return;
    }
    let room = Vec::with_capacity(reply.body.len() / 2);
    let mut encoder = GzEncoder::new(room, Compression::fast());
    // Writing to a Vec does not fail.
    if encoder.write_all(&reply.body).is_ok()
        && let Ok(packed) = encoder.finish()
    {
        reply.body = packed;
        reply.headers.extend([
            (header::CONTENT_ENCODING, HeaderValue::from_static("gzip")),
            (header::VARY, HeaderValue::from_static("accept-encoding")),
        ]);
    }
}

#[cfg(test)]
mod tests {
    use axum::{
        http::{HeaderMap, header},
        response::IntoResponse as _,
    };

    use super::{MAX_BODY_TEXT_LEN, error_object, wished};
    use crate::error::Error;

    #[test]
    fn texts_of_clients_are_not_repeated_without_end() {
        let object = error_object(&Error::invalid("ü".repeat(MAX_BODY_TEXT_LEN)));
        assert!(object.len() < MAX_BODY_TEXT_LEN + 100);
        assert!(
            object.ends_with("ü…\"}"),
            "it is cut between two characters"
        );
        let whole = error_object(&Error::invalid("x".repeat(MAX_BODY_TEXT_LEN)));
        assert!(whole.ends_with("x\"}"));
    }

    #[test]
    fn a_connection_ends_with_the_error_of_its_body() {
        let ends = |error: Error| {
            let response = error.into_response();
            response.headers().get(header::CONNECTION).cloned()
        };
        assert_eq!(ends(Error::invalid("a")), None);
        let ending = ends(Error::invalid("a").leaving_body());
        assert_eq!(ending.unwrap(), "close");
    }

    #[test]
    fn only_a_client_that_means_it_gets_gzip() {
        let ask = |accept: &'static str, sent: Option<&'static str>| {
            let mut headers = HeaderMap::new();
            headers.insert("accept-encoding", accept.parse().unwrap());
            if let Some(sent) = sent {
                headers.insert("content-encoding", sent.parse().unwrap());
            }
            wished(&headers)
        };
        assert!(ask("gzip", None));
        assert!(ask("deflate, gzip;q=1.0", Some("gzip")));
        assert!(!ask("gzip, deflate", None), "what many clients always send");
        assert!(!ask("deflate", Some("gzip")));
        assert!(!wished(&HeaderMap::new()));
    }

    #[test]
    fn codings_count_by_their_weights() {
        let ask = |accept: &str, is_packed: bool| {
            let mut headers = HeaderMap::new();
            for value in accept.split('|') {
                headers.append("accept-encoding", value.parse().unwrap());
            }
            if is_packed {
                headers.insert("content-encoding", "x-gzip".parse().unwrap());
            }
            wished(&headers)
        };
        for accept in [
            "GZIP",
            "x-gzip",
            "gzip, x-gzip",
            "gzip;q=1.0",
            "gzip ; Q=0.1",
            "gzip, br;q=0, deflate; q=0.000",
            "gzip, identity;q=0.5",
            "gzip, br, identity;q=0",
            "gzip;q=0.1, *;q=0",
            "*, identity;q=0",
            "br;q=0|gzip",
        ] {
            assert!(ask(accept, false), "{accept}");
        }
        for accept in [
            "gzip, br",
            "gzip, identity",
            "*",
            "br|gzip",
            "gzip, *;q=0.5",
        ] {
            assert!(!ask(accept, false), "{accept}");
            assert!(ask(accept, true), "{accept}");
        }
        for accept in [
            "gzip;q=0",
            "gzip; q=0.0",
            "gzip;q=0, *",
            "*;q=0",
            "identity;q=0",
            "gzip;q=0, identity;q=0",
            "gzip;q=0.5, identity",
            "gzip;q=much",
            "gzip;q=NaN",
            "",
        ] {
            assert!(!ask(accept, false) && !ask(accept, true), "{accept}");
        }
    }
}
