//! Common parts of the REST wires: the HTTP client, its URLs, and the errors of servers.

use bytes::Bytes;
use reqwest::{
    RequestBuilder, Url,
    header::{HeaderMap, HeaderName},
    redirect,
};
use serde::Deserialize;

use super::{
    address::Address,
    connection::ClientOptions,
    error::{AnswerError, ClientError, ServerError, ServerErrorCode},
};
use crate::https;

/// How much of an error's body is shown if it is not the JSON of a model server.
const MAX_OF_A_FOREIGN_BODY: usize = 300;

/// A pool of connections to one server.
#[derive(Debug)]
pub(super) struct Http {
    address: Address,
    client: reqwest::Client,
    base: Url,
}

/// A good answer as it came.
#[derive(Debug)]
pub(super) struct Fetched {
    pub(super) headers: HeaderMap,
    pub(super) bytes: Bytes,
}

impl Http {
    pub(super) fn new(options: &ClientOptions) -> Result<Self, ClientError> {
        let address = options.address.clone();
        let unreachable = |source| ClientError::Unreachable {
            address: address.clone(),
            source,
        };
        let client = https::plain()
            .map_err(|error| unreachable(error.into()))?
            .user_agent(concat!("ovms/", env!("CARGO_PKG_VERSION")))
            .default_headers(options.headers.clone())
            .http1_only()
            .tcp_nodelay(true)
            .pool_max_idle_per_host(usize::MAX)
            // The address is the server's own, as it is over gRPC.
            .no_proxy()
            .redirect(redirect::Policy::none())
            .build()
            .map_err(|error| unreachable(error.into()))?;
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

    pub(super) fn get(&self, url: Url) -> RequestBuilder {
        self.client.get(url)
    }

    pub(super) fn post(&self, url: Url) -> RequestBuilder {
        self.client.post(url)
    }

    /// Sends a request and reads the answer to its end.
    pub(super) async fn fetch(&self, request: RequestBuilder) -> Result<Fetched, ClientError> {
        let response = request.send().await.map_err(|error| self.failure(error))?;
        let status = response.status();
        let headers = response.headers().clone();
        let bytes = response
            .bytes()
            .await
            .map_err(|error| self.failure(error))?;
        if !status.is_success() {
            return Err(ClientError::Refused(ServerError {
                code: ServerErrorCode::Http(status),
                message: refusal_text(&bytes),
            }));
        }
        Ok(Fetched { headers, bytes })
    }

    pub(super) fn decode<'de, T: Deserialize<'de>>(
        &self,
        body: &'de [u8],
    ) -> Result<T, ClientError> {
        serde_json::from_slice(body)
            .map_err(|error| self.unreadable(AnswerError::Decode(error.into())))
    }

    pub(super) fn unreadable(&self, source: AnswerError) -> ClientError {
        ClientError::Protocol {
            address: self.address.clone(),
            source,
        }
    }

    fn failure(&self, error: reqwest::Error) -> ClientError {
        let address = self.address.clone();
        let source = error.without_url().into();
        ClientError::Unreachable { address, source }
    }
}

impl Fetched {
    /// Returns a header as text.
    pub(super) fn header(&self, name: &HeaderName) -> Option<String> {
        let value = self.headers.get(name)?;
        Some(String::from_utf8_lossy(value.as_bytes()).into_owned())
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
    url
}

/// Finds the text of an error: the `error` of a model server, or the start of what else came.
fn refusal_text(body: &[u8]) -> String {
    #[derive(Deserialize)]
    struct Refused {
        error: String,
    }
    match serde_json::from_slice::<Refused>(body) {
        Ok(refused) => refused.error,
        Err(_) => String::from_utf8_lossy(body)
            .trim()
            .chars()
            .take(MAX_OF_A_FOREIGN_BODY)
            .collect(),
    }
}
