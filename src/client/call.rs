//! An encoded inference, and the response as it came, whatever the wire.

use std::fmt::Debug;

use async_trait::async_trait;
use bytes::Bytes;
use reqwest::header::HeaderMap;

use super::error::ClientError;

/// Encoded inference.
#[async_trait]
pub(super) trait Call: Debug + Send + Sync {
    /// Sends it; calls of different lanes may use different connections.
    async fn send(&self, lane: usize, headers: &HeaderMap) -> Result<RawReply, ClientError>;

    /// Returns its parts, for connections of other kinds.
    fn parts(&self) -> CallParts;
}

/// Parts of an encoded inference.
#[derive(Debug)]
pub(super) struct CallParts {
    pub(super) path: String,
    /// Headers that say what the body is.
    pub(super) headers: HeaderMap,
    /// Body, with its frame over gRPC.
    pub(super) body: Bytes,
}

/// Response as it came.
#[derive(Debug)]
pub(super) struct RawReply {
    /// The headers, over HTTP.
    pub(super) headers: HeaderMap,
    pub(super) bytes: Bytes,
}
