//! One request on its way: encoded, sent, and its answer read.

use reqwest::header::HeaderMap;

use super::{
    super::{
        address::Address,
        error::{CallPhase, ClientError},
        message::ClientResponse,
        protocol::{Call, RawReply},
    },
    Limit,
};

/// A request that is encoded and can be sent any number of times.
#[derive(Debug)]
pub struct EncodedRequest<'a> {
    pub(super) call: Box<dyn Call + 'a>,
    pub(super) limit: &'a Limit,
    /// Headers of this call, in addition to those of the client.
    pub(super) headers: HeaderMap,
}

impl EncodedRequest<'_> {
    /// Sends the request; calls of different lanes may use different connections.
    ///
    /// Dropping the future takes the request back.
    ///
    /// # Errors
    ///
    /// Fails if no answer comes, or the server refuses.
    pub async fn send(&self, lane: usize) -> Result<Reply, ClientError> {
        let sent = self.call.send(lane, &self.headers);
        let body = self.limit.run(CallPhase::Answer, sent).await?;
        Ok(Reply {
            body,
            address: self.limit.address.clone(),
        })
    }
}

/// An answer as it came, not decoded yet.
#[derive(Debug)]
pub struct Reply {
    body: Box<dyn RawReply>,
    address: Address,
}

impl Reply {
    /// Decodes the answer; tensors stay slices of it where the wire allows.
    ///
    /// # Errors
    ///
    /// Fails if the answer does not follow the protocol.
    pub fn read(self) -> Result<ClientResponse, ClientError> {
        let answer = self.body.decode();
        answer.map_err(|source| ClientError::Protocol {
            address: self.address,
            source,
        })
    }
}
