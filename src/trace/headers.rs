//! The headers of W3C Trace Context: `traceparent` and `tracestate`.

use hyper::{HeaderMap, header::HeaderName};
use opentelemetry::trace::{SpanContext, SpanId, TraceFlags, TraceId, TraceState};

/// The header with the ids of a trace and of the span that a request belongs to.
///
/// It is made once, as each request is asked for it.
pub(super) static TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");

/// The header with what others have added to it.
pub(super) const TRACESTATE: &str = "tracestate";

/// Maximum bytes of a `tracestate` that is taken; longer ones are dropped, as the standard allows.
const MAX_STATE: usize = 1024;

/// The span that a request belongs to, as its client says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Parent {
    pub(super) trace: TraceId,
    pub(super) span: SpanId,
    pub(super) is_sampled: bool,
}

impl Parent {
    /// Finds the parent of a request; one that is not valid is none, and so are several.
    pub(super) fn of(headers: &HeaderMap) -> Option<Self> {
        let only = headers.get(&TRACEPARENT)?;
        let is_only = headers.get_all(&TRACEPARENT).iter().nth(1).is_none();
        Self::read(only.to_str().ok().filter(|_| is_only)?)
    }

    fn read(text: &str) -> Option<Self> {
        let mut parts = text.trim().splitn(5, '-');
        let (version, trace, span, flags) =
            (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
        let is_hex = |text: &str, length: usize| {
            let digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
            text.len() == length && text.bytes().all(digit)
        };
        // Later versions may have more behind these four.
        let is_whole = version != "00" || parts.next().is_none();
        let fits = is_hex(version, 2) && is_hex(trace, 32) && is_hex(span, 16) && is_hex(flags, 2);
        if !fits || !is_whole || version == "ff" {
            return None;
        }
        let trace = TraceId::from_hex(trace).ok()?;
        let span = SpanId::from_hex(span).ok()?;
        let flags = u8::from_str_radix(flags, 16).ok()?;
        (trace != TraceId::INVALID && span != SpanId::INVALID).then_some(Self {
            trace,
            span,
            is_sampled: TraceFlags::new(flags).is_sampled(),
        })
    }
}

/// Reads the state that a request came with; one that is too long or not valid is empty.
pub(super) fn state(headers: &HeaderMap) -> TraceState {
    let mut whole = String::new();
    for value in headers.get_all(TRACESTATE) {
        let Ok(text) = value.to_str() else {
            return TraceState::default();
        };
        if whole.len() + text.len() >= MAX_STATE {
            return TraceState::default();
        }
        if !whole.is_empty() {
            whole.push(',');
        }
        whole.push_str(text);
    }
    whole.parse().unwrap_or_default()
}

/// Writes the `traceparent` of what a sampled span calls.
pub(super) fn traceparent(span: &SpanContext) -> String {
    let (trace, span) = (span.trace_id(), span.span_id());
    format!("00-{trace}-{span}-01")
}

/// Asserts for a fuzzer what holds of the headers of any request: a parent is the same when it is read again, and a state
/// is no longer than the headers.
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) fn check_headers(headers: &HeaderMap) {
    if let Some(parent) = Parent::of(headers) {
        let flags = TraceFlags::new(u8::from(parent.is_sampled));
        let state = TraceState::default();
        let written = traceparent(&SpanContext::new(
            parent.trace,
            parent.span,
            flags,
            true,
            state,
        ));
        let again = Parent::read(&written).expect("what is written is read");
        assert_eq!((again.trace, again.span), (parent.trace, parent.span));
    }
    assert!(state(headers).header().len() <= MAX_STATE);
}

#[cfg(test)]
mod tests {
    use hyper::{HeaderMap, header::HeaderValue};
    use opentelemetry::trace::{SpanContext, TraceFlags};

    use super::{MAX_STATE, Parent, state, traceparent};

    const GOOD: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn several_parents_are_none() {
        let mut headers = HeaderMap::new();
        headers.append("traceparent", HeaderValue::from_static(GOOD));
        assert!(Parent::of(&headers).is_some());
        headers.append("traceparent", HeaderValue::from_static(GOOD));
        assert!(Parent::of(&headers).is_none());
    }

    #[test]
    fn a_parent_is_read_and_written() {
        let parent = Parent::read(GOOD).unwrap();
        assert!(parent.is_sampled);
        let flags = TraceFlags::SAMPLED;
        let span = SpanContext::new(
            parent.trace,
            parent.span,
            flags,
            true,
            state(&HeaderMap::new()),
        );
        assert_eq!(traceparent(&span), GOOD);
        let unsampled = Parent::read(&GOOD.replace("-01", "-00")).unwrap();
        assert!(!unsampled.is_sampled);
        let later = Parent::read(&format!("{}-more", GOOD.replace("00-0af", "42-0af")));
        assert_eq!(later, Some(parent));
    }

    #[test]
    fn what_is_no_parent_is_passed_over() {
        for text in [
            "",
            "00",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331",
            "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more",
            "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
            "00-0af7651916cd43dd8448eb211c80319-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-+1",
        ] {
            assert_eq!(Parent::read(text), None, "{text}");
        }
    }

    #[test]
    fn a_state_is_one_however_it_is_sent() {
        let of = |values: &[&str]| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append("tracestate", HeaderValue::from_str(value).unwrap());
            }
            state(&headers).header()
        };
        assert_eq!(of(&["a=1", "b=2"]), "a=1,b=2");
        assert_eq!(of(&[]), "");
        assert_eq!(of(&["not a list"]), "");
        assert_eq!(of(&[&format!("a={}", "x".repeat(MAX_STATE))]), "");
    }
}
