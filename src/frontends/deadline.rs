//! Time limits that clients set: in the headers of a gRPC call, or as the request parameter
//! `timeout` of either transport.

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use axum::http::{HeaderMap, HeaderName};
use tokio::time::Sleep;

use crate::{
    error::Error,
    request::{Parameter, Parameters},
};

/// The header with the time limit of a call. Names of headers that each request is asked for are made once.
static TIMEOUT: HeaderName = HeaderName::from_static("grpc-timeout");

/// Runs a call within a time limit, if there is one.
// A call has some kilobytes, which would be moved here and back.
#[inline(always)]
pub(super) fn within<F>(limit: Option<Duration>, call: F) -> Within<F> {
    Within {
        call,
        limit: limit.map(|limit| (limit, Box::pin(tokio::time::sleep(limit)))),
    }
}

pin_project_lite::pin_project! {
    /// A call with a time limit. Not an `async fn`, which would have room for the call three times.
    pub(super) struct Within<F> {
        #[pin]
        call: F,
        limit: Option<(Duration, Pin<Box<Sleep>>)>,
    }
}

impl<T, E: From<Error>, F: Future<Output = Result<T, E>>> Future for Within<F> {
    type Output = Result<T, E>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let polled = this.call.poll(context);
        match this.limit {
            Some((limit, sleep)) if polled.is_pending() => sleep
                .as_mut()
                .poll(context)
                .map(|()| Err(Error::deadline(*limit).into())),
            _ => polled,
        }
    }
}

/// Reads the time limit that a gRPC client sends: up to eight digits and a unit (gRPC over
/// HTTP/2, "Timeout").
pub(super) fn of_headers(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get(&TIMEOUT)?.to_str().ok()?;
    let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    if digits.is_empty() || digits.len() > 8 || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let number: u64 = digits.parse().ok()?;
    Some(match unit {
        "H" => Duration::from_secs(number * 3600),
        "M" => Duration::from_secs(number * 60),
        "S" => Duration::from_secs(number),
        "m" => Duration::from_millis(number),
        "u" => Duration::from_micros(number),
        "n" => Duration::from_nanos(number),
        _ => return None,
    })
}

/// The request parameter that is a time limit.
pub(super) const PARAMETER: &str = "timeout";

/// Reads the time limit among the parameters of a request.
pub(super) fn of_parameters(parameters: &Parameters) -> Option<Duration> {
    parameters.iter().find_map(|(name, value)| match value {
        Parameter::Int(value) if name == PARAMETER => of_micros(*value),
        _ => None,
    })
}

/// Makes a time limit of microseconds; 0 means none, as with Triton, and so does less.
pub(super) fn of_micros(value: i64) -> Option<Duration> {
    let value = u64::try_from(value).ok().filter(|&value| value > 0)?;
    Some(Duration::from_micros(value))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use axum::http::HeaderMap;

    use super::{of_headers, of_parameters};
    use crate::request::Parameter;

    #[test]
    fn deadlines_are_read_in_every_unit() {
        let read = |text: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert("grpc-timeout", text.parse().unwrap());
            of_headers(&headers)
        };
        assert_eq!(read("2H"), Some(Duration::from_secs(7200)));
        assert_eq!(read("100m"), Some(Duration::from_millis(100)));
        assert_eq!(read("99999999n"), Some(Duration::from_nanos(99_999_999)));
        for wrong in ["", "1", "m", "123456789m", "-1S", "1x"] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn the_parameter_is_in_microseconds() {
        let read = |value| of_parameters(&vec![("timeout".to_owned(), value)]);
        assert_eq!(
            read(Parameter::Int(1500)),
            Some(Duration::from_micros(1500))
        );
        for none in [
            Parameter::Int(0),
            Parameter::Int(-1),
            Parameter::Bool(true),
            Parameter::Text("1".to_owned()),
        ] {
            assert_eq!(read(none), None);
        }
    }
}
