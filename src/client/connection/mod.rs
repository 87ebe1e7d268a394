//! One face over the wires: connect, ask, send.

use std::{io, time::Duration};

use bytes::Bytes;
use futures::future::join_all;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use strum::VariantArray;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    time::timeout,
};

use super::{
    address::{Address, Api},
    call::{Call, RawReply},
    connector,
    error::{CallPhase, ClientError, RequestError},
    events,
    grpc::Grpc,
    http::{self, Http},
    kserve_grpc::{self, KserveGrpc},
    kserve_rest::KserveRest,
    message::{
        ClientResponse, LiveSequences, ModelBatching, ModelId, ModelMetadata, ModelStatus, Request,
        ServerMetadata, VersionStatus,
    },
    options::ClientOptions,
    protocol::Protocol,
    server_counters::ServerCounters,
    stranger::{ForeignAnswer, MAX_FIRST, MAX_READ},
    stream::{RequestSender, ResponseReceiver},
    tfs_grpc::TfsGrpc,
    tfs_rest::{self, TfsRest},
    wire::WireRequest,
};

/// Time limit for probing an address for another protocol.
const PROBE_LIMIT: Duration = Duration::from_secs(2);

/// The header, or gRPC metadata, that says of which sequence a request is. Servers do not read it:
/// proxies spread requests over replicas by it.
pub const SEQUENCE: HeaderName = HeaderName::from_static("ovms-sequence-id");

/// The header, or the gRPC metadata, that all attempts of one step have in common.
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("ovms-idempotency-key");

/// Asks an address over HTTP, and reads the first bytes that come; none if the connection is closed before.
async fn first_bytes(address: &Address) -> io::Result<Vec<u8>> {
    let mut stream = connector::open(address.clone(), None).await?;
    let asked = b"GET / HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    // One that speaks first may not read.
    let _ = stream.write_all(asked).await;
    let mut bytes = vec![0; MAX_FIRST];
    let length = stream.read(&mut bytes).await?;
    bytes.truncate(length);
    Ok(bytes)
}

/// Part of the paths of sequences.
pub(super) const SEQUENCES: &str = "sequences";

/// A connection to a server.
#[derive(Debug)]
pub struct Client {
    wire: Box<dyn Protocol>,
    options: ClientOptions,
}

impl Client {
    /// Connects.
    ///
    /// Over REST nothing is sent yet: a server that is not there shows with the first request.
    ///
    /// # Errors
    ///
    /// Fails if nothing listens at the address, or it takes longer than the limit.
    pub async fn connect(options: &ClientOptions) -> Result<Self, ClientError> {
        let grpc = async || {
            // In a box: it is done once, and callers carry no room for it.
            let connecting = Box::pin(Grpc::connect(options));
            options.within(CallPhase::Connect, connecting).await
        };
        let wire: Box<dyn Protocol> = match options.api {
            Api::KserveGrpc => Box::new(KserveGrpc(grpc().await?)),
            Api::KserveRest => Box::new(KserveRest(Http::new(options)?)),
            Api::TfsGrpc => Box::new(TfsGrpc(grpc().await?)),
            Api::TfsRest => Box::new(TfsRest(Http::new(options)?)),
        };
        Ok(Self {
            wire,
            options: options.clone(),
        })
    }

    /// Returns the protocol.
    pub fn api(&self) -> Api {
        self.options.api
    }

    /// Finds another protocol that the address speaks, for those whose own gets no answer there.
    ///
    /// `None` as well if it speaks the one that was asked for: then that is not what is wrong.
    pub async fn other_api(options: &ClientOptions) -> Option<Api> {
        let spoken = Self::spoken_apis(options).await;
        if spoken.contains(&options.api) {
            return None;
        }
        spoken.first().copied()
    }

    /// Finds the protocols that the address speaks.
    pub async fn spoken_apis(options: &ClientOptions) -> Vec<Api> {
        let spoken = join_all(Api::VARIANTS.iter().map(async |&api| {
            let options = ClientOptions {
                api,
                timeout: options.timeout.min(PROBE_LIMIT),
                concurrency: 1,
                ..options.clone()
            };
            let client = Self::connect(&options).await.ok()?;
            match client.server_ready().await {
                Ok(_) => Some(api),
                // It is spoken there, to those who are known.
                Err(ClientError::Refused(refusal)) if refusal.is_unauthenticated() => Some(api),
                Err(_) => None,
            }
        }))
        .await;
        spoken.into_iter().flatten().collect()
    }

    /// Asks an address where no protocol of model servers is spoken what answers there, over HTTP or in another
    /// protocol; `None` if nothing does.
    pub async fn foreign_answer(options: &ClientOptions) -> Option<ForeignAnswer> {
        let options = ClientOptions {
            timeout: options.timeout.min(PROBE_LIMIT),
            ..options.clone()
        };
        let asked = async {
            let body = Http::new(&options)?.beginning(MAX_READ).await?;
            Ok(ForeignAnswer::of(&body))
        };
        if let Ok(found) = options.within(CallPhase::Answer, asked).await {
            return Some(found);
        }
        // In plain bytes, TLS says nothing of what is within.
        if options.address.is_tls() {
            return None;
        }
        let first = timeout(options.timeout, first_bytes(&options.address)).await;
        let first = first.ok()?.ok().filter(|bytes| !bytes.is_empty())?;
        Some(ForeignAnswer::of_stream(&first))
    }

    /// Asks whether the server can take requests.
    ///
    /// TensorFlow Serving's protocols have no such question: there a server that answers is ready.
    ///
    /// # Errors
    ///
    /// Fails if no answer comes, or the server does not speak the protocol.
    pub async fn server_ready(&self) -> Result<bool, ClientError> {
        self.ask(self.wire.is_ready()).await
    }

    /// Asks for the server's name, version and readiness; `None` if the protocol has no such
    /// question.
    ///
    /// # Errors
    ///
    /// Fails if no answer comes, or the server refuses.
    pub async fn server_metadata(&self) -> Result<Option<ServerMetadata>, ClientError> {
        self.ask(self.wire.server()).await
    }

    /// Asks for the inputs and outputs of a model.
    ///
    /// # Errors
    ///
    /// Fails if no answer comes, or the server does not know the model.
    pub async fn model_metadata(&self, model: &ModelId) -> Result<ModelMetadata, ClientError> {
        self.ask(self.wire.model_metadata(model)).await
    }

    /// Asks how requests to a model are batched; `None` if they are not, or the server does not report it.
    pub async fn model_batching(&self, model: &ModelId) -> Option<ModelBatching> {
        self.ask(self.wire.model_batching(model)).await.ok()?
    }

    /// Asks for all models and their states, by name.
    ///
    /// # Errors
    ///
    /// Fails if no answer comes, or the server has no such list.
    pub async fn models(&self) -> Result<Vec<ModelStatus>, ClientError> {
        let models = self.ask(self.wire.models()).await?;
        if self.wire.lists_states() {
            return Ok(models);
        }
        // Here the list comes from another protocol, and the states from this one.
        let mut reported = Vec::with_capacity(models.len());
        for model in models {
            let id = ModelId::of(&model.name);
            match self.ask(self.wire.model_status(&id)).await {
                Ok(status) => reported.push(status.unwrap_or(model)),
                Err(ClientError::Refused(_)) => reported.push(model),
                Err(error) => return Err(error),
            }
        }
        Ok(reported)
    }

    /// Asks for the names of the server's models, without those that it says are removed; `None` if the server has no
    /// such list.
    pub async fn model_names(&self) -> Option<Vec<String>> {
        let models = self.ask(self.wire.models()).await.ok()?;
        let present = models.into_iter().filter(|model| !model.is_removed());
        Some(present.map(|model| model.name).collect())
    }

    /// Asks for the states of a model's versions, or of the one version that is named.
    ///
    /// # Errors
    ///
    /// Fails if no answer comes, or the server does not know the model or the version.
    pub async fn model_status(&self, model: &ModelId) -> Result<ModelStatus, ClientError> {
        match self.ask(self.wire.model_status(model)).await? {
            Some(status) => Ok(status),
            None => self.listed_status(model).await,
        }
    }

    /// Asks for the counters of a model; `None` if the server has none.
    pub async fn statistics(&self, model: &ModelId) -> Option<ServerCounters> {
        self.ask(self.wire.statistics(model)).await.ok().flatten()
    }

    /// Returns the options that it was connected with.
    pub(super) fn options(&self) -> &ClientOptions {
        &self.options
    }

    /// Asks a question, within the limit.
    async fn ask<T>(
        &self,
        question: impl Future<Output = Result<T, ClientError>>,
    ) -> Result<T, ClientError> {
        self.options.within(CallPhase::Answer, question).await
    }

    /// KServe has states in its list alone, which is an extension: without it, or if the model is
    /// not in it, the server is asked whether the model is ready, and answers what is wrong.
    async fn listed_status(&self, model: &ModelId) -> Result<ModelStatus, ClientError> {
        let listed = match self.models().await {
            Ok(models) => models.into_iter().find(|listed| listed.name == model.name),
            Err(ClientError::Refused(_)) => None,
            Err(error) => return Err(error),
        };
        if let Some(mut listed) = listed {
            let Some(version) = &model.version else {
                return Ok(listed);
            };
            listed.versions.retain(|listed| listed.version == *version);
            if !listed.versions.is_empty() {
                return Ok(listed);
            }
        }
        let is_ready = self.ask(self.wire.model_ready(model)).await?;
        let asked: Vec<_> = model.version.iter().cloned().collect();
        let versions = match (is_ready, asked.is_empty()) {
            (true, true) => self.model_metadata(model).await?.versions,
            (false, true) => vec![String::new()],
            (_, false) => asked,
        };
        let state = if is_ready { "READY" } else { "UNAVAILABLE" };
        let status = |version| VersionStatus {
            version,
            state: state.to_owned(),
            code: None,
            message: String::new(),
        };
        Ok(ModelStatus {
            name: model.name.clone(),
            versions: versions.into_iter().map(status).collect(),
        })
    }

    /// Encodes a request, to be sent once or many times.
    ///
    /// # Errors
    ///
    /// Fails if the request has no form in the protocol.
    pub fn call(&self, request: &Request) -> Result<EncodedRequest<'_>, ClientError> {
        let api = self.api();
        let what = match api.is_tfs() {
            true if !request.id.is_empty() => Some("request id"),
            true if !request.parameters.is_empty() => Some("request parameters"),
            _ => None,
        };
        if let Some(what) = what {
            return Err(RequestError::NoField { api, what }.into());
        }
        Ok(EncodedRequest {
            call: self.wire.encode(request)?,
            request: request.clone(),
            client: self,
            headers: HeaderMap::new(),
        })
    }

    /// Opens a stream. Over REST each of its requests has a stream of events of its own, one after the other.
    ///
    /// # Errors
    ///
    /// Fails with TensorFlow Serving's protocols, which have none.
    pub fn stream(&self) -> Result<(RequestSender, ResponseReceiver<'_>), ClientError> {
        let (api, what) = (self.api(), "streams");
        let stream = self.wire.stream();
        stream.ok_or_else(|| RequestError::NoField { api, what }.into())
    }

    /// Fetches the saved state of a sequence.
    ///
    /// # Errors
    ///
    /// Fails if no answer comes, the server refuses, or the protocol is not over HTTP.
    pub async fn save_sequence(&self, model: &ModelId, id: u64) -> Result<Bytes, ClientError> {
        self.saved(model, id, None).await
    }

    /// Begins a sequence with a saved state.
    ///
    /// # Errors
    ///
    /// Fails if no answer comes, the server refuses, or the protocol is not over HTTP.
    pub async fn restore_sequence(
        &self,
        model: &ModelId,
        id: u64,
        state: Bytes,
    ) -> Result<(), ClientError> {
        self.saved(model, id, Some(state)).await.map(drop)
    }

    /// Lists live sequences of a model: as many as a server shows unless it is asked for more.
    ///
    /// # Errors
    ///
    /// Fails if no answer comes, the server refuses, or the protocol is not over HTTP.
    pub async fn sequences(&self, model: &ModelId) -> Result<LiveSequences, ClientError> {
        let (api, what) = (self.api(), "lists of sequences");
        let http = self.wire.http();
        let http = http.ok_or(RequestError::NoField { api, what })?;
        let path = tfs_rest::segments(model, &[SEQUENCES]);
        let json = self.ask(http.get(&path)).await?;
        http.decode(&json)
    }

    async fn saved(
        &self,
        model: &ModelId,
        id: u64,
        state: Option<Bytes>,
    ) -> Result<Bytes, ClientError> {
        let (api, what) = (self.api(), "states of sequences");
        let http = self.wire.http();
        let http = http.ok_or(RequestError::NoField { api, what })?;
        let mut headers = HeaderMap::new();
        if !self.options.headers.contains_key(&SEQUENCE) {
            headers.insert(SEQUENCE, id.into());
        }
        let text = id.to_string();
        let path = tfs_rest::segments(model, &[SEQUENCES, &text]);
        self.ask(http.file(&path, headers, state)).await
    }

    /// Encodes a request of a sequence: the header [`SEQUENCE`] tells a proxy of which one, so that
    /// it goes to the replica that has its state. One among the headers of the [`ClientOptions`] stays. The key, if
    /// there is one, is that of the step.
    pub(super) fn call_of(
        &self,
        sequence: u64,
        key: Option<&HeaderValue>,
        request: &Request,
    ) -> Result<EncodedRequest<'_>, ClientError> {
        let mut call = self.call(request)?;
        if !self.options.headers.contains_key(&SEQUENCE) {
            call.headers.insert(SEQUENCE, sequence.into());
        }
        if let Some(key) = key {
            call.headers.insert(IDEMPOTENCY_KEY, key.clone());
        }
        Ok(call)
    }

    /// Encodes a request of a stream as bytes, for connections of a load.
    pub(super) fn on_stream(&self, request: &Request) -> Result<WireRequest, ClientError> {
        let (api, what) = (self.api(), "streams");
        match (api, self.wire.http()) {
            (Api::KserveGrpc, _) => Ok(self.call(request)?.on_wire()?.at(kserve_grpc::STREAM)),
            (Api::KserveRest, Some(http)) => {
                let segments = http::segments(&request.model, Some(events::VERB));
                let path = http.url(&segments).path().to_owned();
                let (headers, body) = events::body(request)?.into_parts();
                self.wire_request(&path, headers, body)
            }
            _ => Err(RequestError::NoField { api, what }.into()),
        }
    }

    fn wire_request(
        &self,
        path: &str,
        headers: HeaderMap,
        body: Bytes,
    ) -> Result<WireRequest, ClientError> {
        WireRequest::post(&self.options, path, headers, body).map_err(|source| {
            let address = self.options.address.clone();
            ClientError::Unreachable { address, source }
        })
    }

    /// Sends a request and reads the answer.
    ///
    /// # Errors
    ///
    /// Fails if no answer comes, the server refuses, or the answer cannot be read.
    pub async fn infer(&self, request: &Request) -> Result<ClientResponse, ClientError> {
        self.call(request)?.send(0).await?.read()
    }
}

/// A request that is encoded and can be sent any number of times.
#[derive(Debug)]
pub struct EncodedRequest<'a> {
    client: &'a Client,
    call: Box<dyn Call + 'a>,
    request: Request,
    /// Headers of this call, in addition to those of the client.
    headers: HeaderMap,
}

impl EncodedRequest<'_> {
    /// Sends the request; calls of different lanes may use different connections.
    ///
    /// Dropping the future takes the request back.
    ///
    /// # Errors
    ///
    /// Fails if no answer comes, or the server refuses.
    pub async fn send(&self, lane: usize) -> Result<Reply<'_>, ClientError> {
        let raw = self.client.ask(self.call.send(lane, &self.headers)).await?;
        Ok(Reply { call: self, raw })
    }

    /// Returns the request as bytes, for connections of a load.
    pub(super) fn on_wire(&self) -> Result<WireRequest, ClientError> {
        let mut parts = self.call.parts();
        parts.headers.extend(self.headers.clone());
        self.client
            .wire_request(&parts.path, parts.headers, parts.body)
    }
}

/// An answer as it came, not decoded yet.
#[derive(Debug)]
pub struct Reply<'a> {
    call: &'a EncodedRequest<'a>,
    raw: RawReply,
}

impl Reply<'_> {
    /// Decodes the answer; tensors stay slices of it where the wire allows.
    ///
    /// # Errors
    ///
    /// Fails if the answer does not follow the protocol.
    pub fn read(self) -> Result<ClientResponse, ClientError> {
        let EncodedRequest {
            client, request, ..
        } = self.call;
        let answer = client.wire.decode(self.raw, request);
        answer.map_err(|source| ClientError::Protocol {
            address: client.options.address.clone(),
            source,
        })
    }
}

#[cfg(test)]
mod tests;
