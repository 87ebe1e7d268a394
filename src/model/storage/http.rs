//! Requests to the services: proxies, time limits, TLS, and refusals as distinguishable errors.

use std::{pin::Pin, time::Duration};

use bytes::Bytes;
use http_body_util::{BodyExt as _, Limited};
use object_store::{
    BackoffConfig, ClientOptions, RetryConfig,
    client::{
        HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpService,
    },
};
use reqwest::{NoProxy, Proxy};

use super::{
    StorageEnvironment, StorageError,
    answer::{InnermostCause, StorageRefusal},
    options::StorageLimits,
};
use crate::https::{self, CertificatesError};

/// Maximum bytes read of the body of a refusal.
const MAX_REFUSAL_LEN: usize = 1 << 16;

/// Hosts of the clouds' metadata services; never behind a proxy.
const METADATA_HOSTS: &str = "169.254.169.254,169.254.170.2,metadata.google.internal,metadata";

/// The client of one storage, which turns refusals into errors.
#[derive(Debug, Clone)]
pub(super) struct Connector(reqwest::Client);

impl Connector {
    /// Makes a connector; blocks while it reads certificates.
    ///
    /// `base_path` is for errors, and `secure` says whether the service is reached by `https://`.
    pub(super) fn new(
        base_path: &str,
        secure: bool,
        environment: &StorageEnvironment,
        limits: &StorageLimits,
    ) -> Result<Self, StorageError> {
        let refuse = |error: CertificatesError| {
            let text = format!("cannot make secure connections for {base_path}");
            let hint = "install the package ca-certificates, or name a file of certificates in \
                        SSL_CERT_FILE";
            StorageError::caused(text, error).with_hint(hint)
        };
        let builder = if secure {
            https::trusting()
        } else {
            https::plain()
        };
        let mut builder = builder
            .map_err(refuse)?
            .user_agent(concat!("ovms/", env!("CARGO_PKG_VERSION")))
            .http1_only()
            .no_gzip()
            .connect_timeout(limits.connect)
            .read_timeout(limits.silence)
            // Those of the environment are given below.
            .no_proxy();
        for proxy in proxies(environment)? {
            builder = builder.proxy(proxy);
        }
        let http = builder
            .build()
            .map_err(|error| StorageError::request(base_path, InnermostCause::of(&error)))?;
        Ok(Self(http))
    }
}

/// Reads the proxies as curl does; besides, `http_proxy` alone serves `https://` too, as with the
/// C++ server.
fn proxies(environment: &StorageEnvironment) -> Result<Vec<Proxy>, StorageError> {
    let http = environment.first_named(&["http_proxy", "HTTP_PROXY"]);
    let https = environment.first_named(&["https_proxy", "HTTPS_PROXY"]);
    let all = environment.first_named(&["all_proxy", "ALL_PROXY"]);
    let direct = environment.first(&["no_proxy", "NO_PROXY"]);
    let direct = format!("{METADATA_HOSTS},{}", direct.unwrap_or_default());
    let mut proxies = Vec::new();
    let mut add = |named: Option<_>, proxy: fn(String) -> reqwest::Result<Proxy>| {
        if let Some((variable, url)) = named {
            let url: &str = url;
            // The URL may have a password in it, so it is not logged.
            let proxy = proxy(url.to_owned())
                .map_err(|_| StorageError::other(format!("`{variable}` is not a proxy URL")))?;
            proxies.push(proxy.no_proxy(NoProxy::from_string(&direct)));
        }
        Ok(())
    };
    add(https.or(all).or(http), Proxy::https)?;
    add(http.or(all), Proxy::http)?;
    Ok(proxies)
}

impl HttpConnector for Connector {
    fn connect(&self, _options: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(HttpClient::new(self.clone()))
    }
}

/// Returns the retry settings for requests that failed for a passing reason.
pub(super) fn retries(limits: &StorageLimits) -> RetryConfig {
    RetryConfig {
        backoff: BackoffConfig {
            init_backoff: Duration::from_millis(100),
            max_backoff: Duration::from_secs(1),
            base: 2.0,
        },
        max_retries: limits.retries,
        // Listings and downloads have limits of their own. This one counts from the first request, so that any shorter one
        // would leave a large object that breaks off late without a retry.
        retry_timeout: Duration::MAX,
    }
}

type Answer<'a> = Pin<Box<dyn Future<Output = Result<HttpResponse, HttpError>> + Send + 'a>>;

impl HttpService for Connector {
    fn call<'s, 'a>(&'s self, request: HttpRequest) -> Answer<'a>
    where
        's: 'a,
        Self: 'a,
    {
        Box::pin(async move {
            let answer = HttpService::call(&self.0, request).await?;
            let status = answer.status();
            // These pass, and the storage library repeats the request.
            let passing = status.is_server_error() || matches!(status.as_u16(), 408 | 429);
            if status.is_success() || passing {
                return Ok(answer);
            }
            let region = answer
                .headers()
                .get("x-amz-bucket-region")
                .and_then(|region| region.to_str().ok())
                .map(str::to_owned);
            let body = Limited::new(answer.into_body(), MAX_REFUSAL_LEN);
            let body = body.collect().await.map(|body| body.to_bytes());
            // A refusal is one without its body as well.
            let body: Bytes = body.unwrap_or_default();
            let refused =
                StorageRefusal::new(status.as_u16(), region, &String::from_utf8_lossy(&body));
            Err(HttpError::new(HttpErrorKind::Unknown, refused))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{StorageEnvironment, proxies};

    fn count(variables: &[(&str, &str)]) -> usize {
        let environment = variables.iter().copied().collect();
        proxies(&environment).unwrap().len()
    }

    #[test]
    fn proxies_are_read_from_the_environment() {
        assert_eq!(count(&[]), 0);
        assert_eq!(count(&[("https_proxy", "http://proxy:3128")]), 1);
        assert_eq!(count(&[("http_proxy", "proxy:3128")]), 2);
        assert_eq!(count(&[("ALL_PROXY", "http://a:b@proxy:3128")]), 2);
    }

    #[test]
    fn a_bad_proxy_is_named_without_its_password() {
        let environment: StorageEnvironment =
            [("HTTPS_PROXY", "http://a:secret@")].into_iter().collect();
        let refused = proxies(&environment).unwrap_err();
        assert_eq!(refused.to_string(), "`HTTPS_PROXY` is not a proxy URL");
    }
}
