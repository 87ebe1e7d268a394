//! Priority of a request, beside the request itself.

use hyper::{HeaderMap, header::HeaderName};

use crate::quota::Priority;

/// The header, and the metadata of a gRPC call, that has the priority. Requests of KServe may have it among their
/// parameters instead, as Triton's do.
static HEADER: HeaderName = HeaderName::from_static("ovms-priority");

/// Finds the priority of a request; anything but a number is none.
pub(super) fn of_headers(headers: &HeaderMap) -> Option<Priority> {
    let text = headers.get(&HEADER)?.to_str().ok()?;
    text.trim().parse().ok().and_then(Priority::asked)
}
