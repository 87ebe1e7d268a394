//! One face over the wires: connect, ask, send.

use std::{fmt, time::Duration};

use reqwest::header::HeaderMap;

use super::{
    Address, Answer, ClientError, ModelId, ModelMetadata, Request, Step, kserve_grpc, kserve_rest,
};

/// How long an address is tried for another protocol.
const PROBE_LIMIT: Duration = Duration::from_secs(2);

/// A protocol of model servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Api {
    /// KServe v2 over gRPC.
    KserveGrpc,
    /// KServe v2 over REST.
    KserveRest,
}

impl Api {
    /// Every protocol.
    pub const ALL: [Self; 2] = [Self::KserveGrpc, Self::KserveRest];

    /// Returns the port that servers usually have it on.
    #[must_use]
    pub const fn port(self) -> u16 {
        match self {
            Self::KserveGrpc => 9000,
            Self::KserveRest => 8000,
        }
    }
}

impl fmt::Display for Api {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::KserveGrpc => "kserve-grpc",
            Self::KserveRest => "kserve-rest",
        })
    }
}

/// How to reach a server.
#[derive(Debug, Clone)]
pub struct Options {
    /// The server's address.
    pub address: Address,
    /// The protocol.
    pub api: Api,
    /// The limit for the connection, and for each request.
    pub timeout: Duration,
    /// Sent with every request; see [`header`](super::header).
    pub headers: HeaderMap,
    /// How many calls will be under way at once.
    pub concurrency: usize,
}

/// A connection to a server.
#[derive(Debug)]
pub struct Client {
    wire: Wire,
    limit: Limit,
}

/// The wires. Another API is another variant.
#[derive(Debug)]
enum Wire {
    KserveGrpc(kserve_grpc::Wire),
    KserveRest(kserve_rest::Wire),
}

impl Client {
    /// Connects.
    ///
    /// Over REST nothing is sent yet: a server that is not there shows with the first request.
    ///
    /// # Errors
    ///
    /// Fails if nothing listens at the address, or it takes longer than the limit.
    pub async fn connect(options: &Options) -> Result<Self, ClientError> {
        let limit = Limit {
            address: options.address.clone(),
            timeout: options.timeout,
        };
        let wire = match options.api {
            Api::KserveGrpc => {
                let connect = kserve_grpc::Wire::connect(options);
                Wire::KserveGrpc(limit.run(Step::Connect, connect).await?)
            }
            Api::KserveRest => Wire::KserveRest(kserve_rest::Wire::new(options)?),
        };
        Ok(Self { wire, limit })
    }

    /// Finds another protocol that the address speaks, for those whose own gets no answer.
    pub async fn other_api(options: &Options) -> Option<Api> {
        for api in Api::ALL.into_iter().filter(|api| *api != options.api) {
            let options = Options {
                api,
                timeout: options.timeout.min(PROBE_LIMIT),
                ..options.clone()
            };
            if let Ok(client) = Self::connect(&options).await
                && client.server_ready().await.is_ok()
            {
                return Some(api);
            }
        }
        None
    }

    /// Asks whether the server can take requests.
    ///
    /// # Errors
    ///
    /// Fails if no answer comes.
    pub async fn server_ready(&self) -> Result<bool, ClientError> {
        match &self.wire {
            Wire::KserveGrpc(wire) => self.limit.run(Step::Answer, wire.server_ready()).await,
            Wire::KserveRest(wire) => self.limit.run(Step::Answer, wire.server_ready()).await,
        }
    }

    /// Asks for the inputs and outputs of a model.
    ///
    /// # Errors
    ///
    /// Fails if no answer comes, or the server does not know the model.
    pub async fn model_metadata(&self, model: &ModelId) -> Result<ModelMetadata, ClientError> {
        match &self.wire {
            Wire::KserveGrpc(wire) => {
                let call = wire.model_metadata(model);
                self.limit.run(Step::Answer, call).await
            }
            Wire::KserveRest(wire) => {
                let call = wire.model_metadata(model);
                self.limit.run(Step::Answer, call).await
            }
        }
    }

    /// Asks for the names of the server's models; `None` if the server has no such list.
    pub async fn model_names(&self) -> Option<Vec<String>> {
        match &self.wire {
            Wire::KserveGrpc(wire) => self.limit.run(Step::Answer, wire.model_names()).await.ok(),
            Wire::KserveRest(wire) => self.limit.run(Step::Answer, wire.model_names()).await.ok(),
        }
    }

    /// Encodes a request, to be sent once or many times.
    ///
    /// # Errors
    ///
    /// Fails if the request has no form in the protocol.
    pub fn call(&self, request: &Request) -> Result<Call<'_>, ClientError> {
        let body = match &self.wire {
            Wire::KserveGrpc(wire) => Body::KserveGrpc(wire.call(request)?),
            Wire::KserveRest(wire) => Body::KserveRest(wire.call(request)?),
        };
        Ok(Call {
            body,
            limit: &self.limit,
        })
    }

    /// Sends a request and reads the answer.
    ///
    /// # Errors
    ///
    /// Fails if no answer comes, the server refuses, or the answer cannot be read.
    pub async fn infer(&self, request: &Request) -> Result<Answer, ClientError> {
        self.call(request)?.send(0).await?.read()
    }
}

/// A request that is encoded and can be sent any number of times.
#[derive(Debug)]
pub struct Call<'a> {
    body: Body<'a>,
    limit: &'a Limit,
}

#[derive(Debug)]
enum Body<'a> {
    KserveGrpc(kserve_grpc::Call<'a>),
    KserveRest(kserve_rest::Call<'a>),
}

impl Call<'_> {
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
                let reply = self.limit.run(Step::Answer, call.send(lane)).await?;
                ReplyBody::KserveGrpc(reply)
            }
            Body::KserveRest(call) => {
                let reply = self.limit.run(Step::Answer, call.send()).await?;
                ReplyBody::KserveRest(reply)
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
}

impl Reply {
    /// Decodes the answer; tensors stay slices of it where the wire allows.
    ///
    /// # Errors
    ///
    /// Fails if the answer does not follow the protocol.
    pub fn read(self) -> Result<Answer, ClientError> {
        let answer = match self.body {
            ReplyBody::KserveGrpc(body) => kserve_grpc::answer(body),
            ReplyBody::KserveRest(reply) => kserve_rest::answer(&reply),
        };
        answer.map_err(|source| ClientError::Protocol {
            address: self.address,
            source,
        })
    }
}

/// The time limit, and the address to name when it passes.
#[derive(Debug)]
struct Limit {
    address: Address,
    timeout: Duration,
}

impl Limit {
    async fn run<T>(
        &self,
        step: Step,
        work: impl Future<Output = Result<T, ClientError>>,
    ) -> Result<T, ClientError> {
        match tokio::time::timeout(self.timeout, work).await {
            Ok(result) => result,
            Err(_) => Err(ClientError::Timeout {
                address: self.address.clone(),
                limit: self.timeout,
                step,
            }),
        }
    }
}

#[cfg(test)]
mod tests;
