//! Answers as gzip, for HTTP clients that ask for it.
//!
//! Many clients say that they accept gzip without wanting it, and packing a tensor takes longer
//! than sending it over a local network. So an answer is packed only for a client that names gzip
//! and nothing else, or that has packed its own request.

use std::io::Write;

use axum::http::{HeaderMap, HeaderValue, header};
use flate2::{Compression, write::GzEncoder};

use super::reply::Whole;

/// The least bytes that are packed. What fits in one packet gets there no sooner, and in a profile
/// of tiny requests the packer took more than a quarter of the processor time.
const LEAST: usize = 1400;

/// Returns whether a client wants its answer packed.
pub(super) fn wished(headers: &HeaderMap) -> bool {
    let accepted = headers
        .get(header::ACCEPT_ENCODING)
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default();
    let accepts = accepted.split(',').any(|coding| {
        coding
            .split(';')
            .next()
            .is_some_and(|name| name.trim() == "gzip")
    });
    let packed = headers
        .get(header::CONTENT_ENCODING)
        .is_some_and(|coding| coding == "gzip");
    accepts && (packed || accepted.trim() == "gzip")
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
    use axum::http::HeaderMap;

    use super::wished;

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
}
