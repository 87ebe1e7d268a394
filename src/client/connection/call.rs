//! One request on its way: encoded, sent, and its answer read.

use reqwest::header::HeaderMap;

use super::{
    super::{
        address::Address,
        error::{CallPhase, ClientError},
        kserve_grpc, kserve_rest,
        message::ClientResponse,
        tfs_grpc, tfs_rest,
    },
    Limit,
};

/// A request that is encoded and can be sent any number of times.
#[derive(Debug)]
pub struct EncodedRequest<'a> {
    pub(super) body: Body<'a>,
    pub(super) limit: &'a Limit,
    /// Headers of this call, in addition to those of the client.
    pub(super) headers: HeaderMap,
}

/// The encoded request of each wire.
#[derive(Debug)]
pub(super) enum Body<'a> {
    KserveGrpc(kserve_grpc::Call<'a>),
    KserveRest(kserve_rest::Call<'a>),
    TfsGrpc(tfs_grpc::Call<'a>),
    TfsRest(tfs_rest::Call<'a>),
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
        let body = match &self.body {
            Body::KserveGrpc(call) => {
                let reply = self
                    .limit
                    .run(CallPhase::Answer, call.send(lane, &self.headers))
                    .await?;
                ReplyBody::KserveGrpc(reply)
            }
            Body::KserveRest(call) => {
                let reply = self
                    .limit
                    .run(CallPhase::Answer, call.send(&self.headers))
                    .await?;
                ReplyBody::KserveRest(reply)
            }
            Body::TfsGrpc(call) => {
                let reply = self
                    .limit
                    .run(CallPhase::Answer, call.send(lane, &self.headers))
                    .await?;
                ReplyBody::TfsGrpc(reply)
            }
            Body::TfsRest(call) => {
                let reply = self
                    .limit
                    .run(CallPhase::Answer, call.send(&self.headers))
                    .await?;
                ReplyBody::TfsRest(reply)
            }
        };
        Ok(Reply {
            body,
            address: self.limit.address.clone(),
        })
    }
}

/// An answer as it came, not decoded yet.
#[derive(Debug)]
pub struct Reply {
    body: ReplyBody,
    address: Address,
}

#[derive(Debug)]
enum ReplyBody {
    KserveGrpc(bytes::Bytes),
    KserveRest(kserve_rest::Reply),
    TfsGrpc(tfs_grpc::Reply),
    TfsRest(tfs_rest::Reply),
}

impl Reply {
    /// Decodes the answer; tensors stay slices of it where the wire allows.
    ///
    /// # Errors
    ///
    /// Fails if the answer does not follow the protocol.
    pub fn read(self) -> Result<ClientResponse, ClientError> {
        let answer = match self.body {
            ReplyBody::KserveGrpc(body) => kserve_grpc::answer(body),
            ReplyBody::KserveRest(reply) => kserve_rest::answer(&reply),
            ReplyBody::TfsGrpc(reply) => tfs_grpc::answer(reply),
            ReplyBody::TfsRest(reply) => tfs_rest::answer(&reply),
        };
        answer.map_err(|source| ClientError::Protocol {
            address: self.address,
            source,
        })
    }
}
