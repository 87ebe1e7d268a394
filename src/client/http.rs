//! Common parts of the REST wires: the HTTP client, its URLs, and the errors of servers.

use std::sync::LazyLock;

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use prost::Message;
use prost_reflect::{
    DescriptorPool, DeserializeOptions, DynamicMessage, MessageDescriptor, SerializeOptions,
};
use reqwest::{
    RequestBuilder, Response, StatusCode, Url,
    header::{HeaderMap, HeaderName, HeaderValue},
    redirect,
};
use serde::Deserialize;

use super::{
    address::Address,
    call::{Call, CallParts, RawReply},
    error::{AnswerError, ClientError, ServerError, ServerErrorCode},
    grpc::MAX_MESSAGE,
    message::ModelId,
    options::ClientOptions,
    stranger::{ForeignAnswer, page_title},
};
use crate::{https, proto::DESCRIPTORS, text::first_chars};

/// Maximum part of an error's body that is shown if it is not the JSON of a model server.
const MAX_OF_A_FOREIGN_BODY: usize = 300;

/// Maximum part of an error's body that is read.
pub(super) const MAX_OF_AN_ERROR: usize = 64 << 10;

/// Maximum memory that is taken for an answer before it has come.
const MAX_AHEAD: usize = 16 << 20;

/// A pool of connections to one server.
#[derive(Debug)]
pub(super) struct Http {
    address: Address,
    client: reqwest::Client,
    base: Url,
}

impl Http {
    pub(super) fn new(options: &ClientOptions) -> Result<Self, ClientError> {
        let address = options.address.clone();
        let unreachable = |source| ClientError::Unreachable {
            address: address.clone(),
            source,
        };
        let tls = options.tls().map_err(|error| unreachable(error.into()))?;
        let client = match &tls {
            Some(tls) => Ok(https::with(tls)),
            None => https::plain(),
        };
        let mut client = client
            .map_err(|error| unreachable(error.into()))?
            .user_agent(concat!("ovms/", env!("CARGO_PKG_VERSION")))
            .default_headers(options.headers.clone())
            .http1_only()
            .tcp_nodelay(true)
            .pool_max_idle_per_host(usize::MAX)
            // The address is the server's own, as it is over gRPC.
            .no_proxy()
            .redirect(redirect::Policy::none());
        if let Some(path) = options.address.unix_socket() {
            client = client.unix_socket(path);
        }
        let client = client.build().map_err(|error| unreachable(error.into()))?;
        let base = Url::parse(&address.url()).map_err(|error| unreachable(error.into()))?;
        Ok(Self {
            address,
            client,
            base,
        })
    }

    /// Makes the URL of a path; its segments are escaped.
    pub(super) fn url(&self, segments: &[&str]) -> Url {
        with_path(self.base.clone(), segments)
    }

    /// Asks for what a path has.
    pub(super) async fn get(&self, segments: &[&str]) -> Result<Bytes, ClientError> {
        let request = self.client.get(self.url(segments));
        Ok(self.fetch(request).await?.bytes)
    }

    /// Asks for what a path has, or puts something there.
    pub(super) async fn file(
        &self,
        segments: &[&str],
        headers: HeaderMap,
        body: Option<Bytes>,
    ) -> Result<Bytes, ClientError> {
        let url = self.url(segments);
        let request = match body {
            None => self.client.get(url),
            Some(body) => self.client.put(url).body(body),
        };
        Ok(self.fetch(request.headers(headers)).await?.bytes)
    }

    /// Sends a path nothing and reads the answer.
    pub(super) async fn post(&self, segments: &[&str]) -> Result<Bytes, ClientError> {
        let request = self.client.post(self.url(segments));
        Ok(self.fetch(request).await?.bytes)
    }

    /// Asks for a message.
    pub(super) async fn message<T: Message + Default>(
        &self,
        name: &str,
        segments: &[&str],
    ) -> Result<T, ClientError> {
        let json = self.get(segments).await?;
        self.no_page(&json)?;
        from_json(name, &json).map_err(|source| self.unreadable(source))
    }

    /// Sends a path a body, and waits for the head of a good answer.
    pub(super) async fn open(
        &self,
        segments: &[&str],
        body: HttpBody,
    ) -> Result<Response, ClientError> {
        let request = self.client.post(self.url(segments));
        self.opened(body.on(request)).await
    }

    /// Reads the next bytes of an answer; `None` at its end.
    pub(super) async fn chunk(
        &self,
        response: &mut Response,
    ) -> Result<Option<Bytes>, ClientError> {
        let chunk = response.chunk().await;
        chunk.map_err(|error| self.failure(error))
    }

    /// Sends a request and reads the answer to its end.
    async fn fetch(&self, request: RequestBuilder) -> Result<RawReply, ClientError> {
        let mut response = self.opened(request).await?;
        let headers = std::mem::take(response.headers_mut());
        let bytes = self.whole(response, MAX_MESSAGE).await?;
        Ok(RawReply { headers, bytes })
    }

    /// Sends a request and waits for the head of a good answer.
    async fn opened(&self, request: RequestBuilder) -> Result<Response, ClientError> {
        let response = request.send().await.map_err(|error| self.failure(error))?;
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        let body = self.first_bytes(response, MAX_OF_AN_ERROR).await?;
        Err(ClientError::Refused(refusal(status, &body)))
    }

    /// Reads an answer to its end, of so many bytes at most.
    async fn whole(&self, mut response: Response, most: usize) -> Result<Bytes, ClientError> {
        let announced = response.content_length();
        let announced = announced.map_or(0, |it| usize::try_from(it).unwrap_or(usize::MAX));
        if announced > most {
            return Err(self.unreadable(AnswerError::Size(most)));
        }
        let mut body = BytesMut::with_capacity(announced.min(MAX_AHEAD));
        while let Some(chunk) = self.chunk(&mut response).await? {
            if chunk.len() > most - body.len() {
                return Err(self.unreadable(AnswerError::Size(most)));
            }
            body.extend_from_slice(&chunk);
        }
        Ok(body.freeze())
    }

    /// Reads the beginning of an answer, and leaves the rest.
    async fn first_bytes(
        &self,
        mut response: Response,
        most: usize,
    ) -> Result<Vec<u8>, ClientError> {
        let mut body = Vec::new();
        while let Some(chunk) = self.chunk(&mut response).await? {
            body.extend_from_slice(&chunk[..chunk.len().min(most - body.len())]);
            if body.len() == most {
                break;
            }
        }
        Ok(body)
    }

    /// Asks for the page of the address itself, and reads so much of it at most, whatever its status is.
    pub(super) async fn beginning(&self, most: usize) -> Result<Vec<u8>, ClientError> {
        let response = self.client.get(self.base.clone()).send().await;
        let response = response.map_err(|error| self.failure(error))?;
        self.first_bytes(response, most).await
    }

    /// Refuses a page where an answer of a model server is expected.
    pub(super) fn no_page(&self, body: &[u8]) -> Result<(), ClientError> {
        match page_title(body) {
            Some(title) => Err(self.unreadable(AnswerError::Page(ForeignAnswer::Page(title)))),
            None => Ok(()),
        }
    }

    pub(super) fn decode<'de, T: Deserialize<'de>>(
        &self,
        body: &'de [u8],
    ) -> Result<T, ClientError> {
        self.no_page(body)?;
        serde_json::from_slice(body).map_err(|error| self.unreadable(AnswerError::decode(error)))
    }

    pub(super) fn unreadable(&self, source: AnswerError) -> ClientError {
        ClientError::Protocol {
            address: self.address.clone(),
            source,
        }
    }

    fn failure(&self, error: reqwest::Error) -> ClientError {
        ClientError::broken(self.address.clone(), error.without_url())
    }
}

/// Encoded inference over HTTP.
#[derive(Debug)]
pub(super) struct EncodedPost<'a> {
    pub(super) http: &'a Http,
    pub(super) url: Url,
    pub(super) body: HttpBody,
}

/// Body of a request, and the headers that say what it is.
#[derive(Debug, Clone)]
pub(super) struct HttpBody {
    pub(super) headers: Vec<(&'static str, String)>,
    pub(super) bytes: Bytes,
}

#[async_trait]
impl Call for EncodedPost<'_> {
    async fn send(&self, _: usize, headers: &HeaderMap) -> Result<RawReply, ClientError> {
        let request = self.http.client.post(self.url.clone());
        let request = request.headers(headers.clone());
        self.http.fetch(self.body.on(request)).await
    }

    fn parts(&self) -> CallParts {
        let (headers, body) = self.body.clone().into_parts();
        CallParts {
            path: self.url.path().to_owned(),
            headers,
            body,
        }
    }
}

impl HttpBody {
    /// Makes a body of JSON.
    pub(super) fn json(bytes: Vec<u8>) -> Self {
        Self {
            headers: vec![("Content-Type", "application/json".to_owned())],
            bytes: bytes.into(),
        }
    }

    /// Returns its headers and its bytes.
    pub(super) fn into_parts(self) -> (HeaderMap, Bytes) {
        let headers = self.headers.into_iter().filter_map(|(name, value)| {
            let name = HeaderName::from_bytes(name.as_bytes()).ok()?;
            Some((name, HeaderValue::from_str(&value).ok()?))
        });
        (headers.collect(), self.bytes)
    }

    /// Puts it on a request.
    fn on(&self, request: RequestBuilder) -> RequestBuilder {
        let headers = self.headers.iter();
        let request = headers.fold(request, |request, (name, value)| {
            request.header(*name, value)
        });
        request.body(self.bytes.clone())
    }
}

/// Makes the URL of a path at an address, as text; its segments are escaped.
pub(super) fn url(address: &Address, segments: &[&str]) -> String {
    match Url::parse(&address.url()) {
        Ok(base) => with_path(base, segments).to_string(),
        // Addresses are checked to be the beginnings of URLs.
        Err(_) => address.url(),
    }
}

fn with_path(mut url: Url, segments: &[&str]) -> Url {
    url.path_segments_mut()
        .expect("`http` URLs have segments")
        .clear()
        .extend(segments);
    // It would begin the verb of a path of TensorFlow Serving.
    let path = url.path().replace(':', "%3A");
    url.set_path(&path);
    url
}

/// Makes the error of a status and its body: the `error` of a model server, or the start of what else came.
pub(super) fn refusal(status: StatusCode, body: &[u8]) -> ServerError {
    #[derive(Deserialize)]
    struct Refused {
        error: String,
    }
    let refused = serde_json::from_slice::<Refused>(body);
    let is_foreign = refused.is_err();
    let message = match (refused, page_title(body)) {
        (Ok(refused), _) => refused.error,
        (Err(_), Some(title)) => format!("found {}", ForeignAnswer::Page(title)),
        (Err(_), None) => {
            first_chars(String::from_utf8_lossy(body).trim(), MAX_OF_A_FOREIGN_BODY).to_owned()
        }
    };
    ServerError {
        code: ServerErrorCode::Http(status),
        message,
        is_foreign,
    }
}

/// The messages of all services.
static POOL: LazyLock<DescriptorPool> = LazyLock::new(|| {
    DescriptorPool::decode(DESCRIPTORS).expect("the build script has compiled the descriptors")
});

/// Writes a message.
pub(super) fn to_json(name: &str, message: &impl Message) -> String {
    let message = DynamicMessage::decode(descriptor(name), message.encode_to_vec().as_slice());
    let message = message.expect("what was encoded with the same descriptor");
    let mut out = Vec::new();
    let mut json = serde_json::Serializer::new(&mut out);
    let options = SerializeOptions::new().use_proto_field_name(true);
    let written = message.serialize_with_options(&mut json, &options);
    written.expect("messages have texts for keys");
    String::from_utf8(out).expect("JSON is UTF-8")
}

/// Reads a message; fields that it does not have are passed over.
pub(super) fn from_json<T: Message + Default>(name: &str, json: &[u8]) -> Result<T, AnswerError> {
    let mut json = serde_json::Deserializer::from_slice(json);
    let options = DeserializeOptions::new().deny_unknown_fields(false);
    DynamicMessage::deserialize_with_options(descriptor(name), &mut json, &options)
        .and_then(|message| json.end().map(|()| message))
        .map_err(AnswerError::decode)?
        .transcode_to()
        .map_err(AnswerError::decode)
}

fn descriptor(name: &str) -> MessageDescriptor {
    let descriptor = POOL.get_message_by_name(name);
    descriptor.expect("the descriptors have all messages of the services")
}

/// Returns the path of a model over KServe, and of what is done with it.
pub(super) fn segments<'a>(model: &'a ModelId, verb: Option<&'a str>) -> Vec<&'a str> {
    let mut segments = vec!["v2", "models", &model.name];
    if let Some(version) = &model.version {
        segments.extend(["versions", version]);
    }
    segments.extend(verb);
    segments
}

#[cfg(test)]
mod tests {
    use std::{convert::Infallible, time::Duration};

    use axum::{Router, body::Body, http::StatusCode, routing};
    use bytes::Bytes;
    use futures::stream;
    use reqwest::header::HeaderMap;
    use tokio::net::TcpListener;

    use super::{Http, MAX_OF_A_FOREIGN_BODY, MAX_OF_AN_ERROR, Url, with_path};
    use crate::{
        client::{Address, Api, ClientError, ClientOptions},
        error::chain,
    };

    /// Makes a body without an end.
    fn endless() -> Body {
        let piece = Bytes::from_static(&[b'x'; 1000]);
        Body::from_stream(stream::repeat_with(move || {
            Ok::<_, Infallible>(piece.clone())
        }))
    }

    #[tokio::test]
    async fn answers_are_read_up_to_a_limit() {
        let router = Router::new()
            .route("/ten", routing::get(async || "0123456789"))
            .route("/endless", routing::get(async || endless()))
            .route(
                "/refused",
                routing::get(async || (StatusCode::BAD_REQUEST, endless())),
            );
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let address = Address::parse(&format!("127.0.0.1:{port}"), Api::KserveRest).unwrap();
        let http = Http::new(&ClientOptions {
            address,
            api: Api::KserveRest,
            timeout: Duration::from_secs(10),
            headers: HeaderMap::new(),
            concurrency: 1,
            tls: None,
        });
        let http = http.unwrap();
        let read = async |path, most| {
            let response = http.opened(http.client.get(http.url(&[path]))).await?;
            http.whole(response, most).await
        };
        let test = async {
            assert_eq!(read("ten", 10).await.unwrap(), "0123456789");
            for (path, most) in [("ten", 9), ("endless", 100_000)] {
                let error = read(path, most).await.unwrap_err();
                let expected = format!(
                    "cannot read the answer of 127.0.0.1:{port}: found an answer of more than {most} bytes"
                );
                assert!(chain(&error).starts_with(&expected), "{}", chain(&error));
            }
            // Of an error, its beginning says enough.
            let error = http.get(&["refused"]).await.unwrap_err();
            let ClientError::Refused(refusal) = error else {
                panic!("{error}")
            };
            assert_eq!(refusal.message, "x".repeat(MAX_OF_A_FOREIGN_BODY));
            let response = http
                .client
                .get(http.url(&["endless"]))
                .send()
                .await
                .unwrap();
            let beginning = http.first_bytes(response, MAX_OF_AN_ERROR).await.unwrap();
            assert_eq!(beginning.len(), MAX_OF_AN_ERROR);
        };
        tokio::select! {
            _ = axum::serve(listener, router).into_future() => panic!("the server ended"),
            result = tokio::time::timeout(Duration::from_secs(30), test) => result.unwrap(),
        }
    }

    #[test]
    fn what_has_a_meaning_in_a_path_is_escaped() {
        let url = |name| {
            let base = Url::parse("http://localhost:8000").unwrap();
            with_path(base, &["v1", "models", name]).to_string()
        };
        let models = "http://localhost:8000/v1/models/";
        assert_eq!(url("a"), format!("{models}a"));
        assert_eq!(url("a:b"), format!("{models}a%3Ab"));
        assert_eq!(url("a/b %3A"), format!("{models}a%2Fb%20%253A"));
    }
}
