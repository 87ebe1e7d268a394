//! Key sets of issuers (JWKS, RFC 7517): from a file or a URL.

use std::{
    fs::File,
    io::{self, Read as _},
    path::{Path, PathBuf},
    time::Duration,
};

use jsonwebtoken::{
    Algorithm, DecodingKey, DecodingKeyKind,
    jwk::{AlgorithmParameters, EllipticCurve, Jwk, KeyOperations, PublicKeyUse},
};
use serde::Deserialize;
use serde_json::Value;

use crate::https::{self, CertificatesError};

/// The largest key set that is read, in bytes.
const MAX_SET: usize = 1 << 20;

/// Maximum number of keys of a set that are used.
const MAX_KEYS: usize = 256;

/// Time limit for fetching a key set from a server.
const FETCH: Duration = Duration::from_secs(10);

/// Location of a key set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum KeySetSource {
    File(PathBuf),
    Url(String),
}

/// A key set that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum KeySetError {
    /// The system does not give the file.
    #[error("cannot read the key set {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Error from the operating system.
        source: io::Error,
    },
    /// Failure to make a client for the URL.
    #[error("cannot fetch the key set {url}")]
    Client {
        /// The URL.
        url: String,
        /// Reason.
        source: CertificatesError,
    },
    /// The server of the URL does not give it.
    #[error("cannot fetch the key set {url}")]
    Fetch {
        /// The URL.
        url: String,
        /// Reason.
        source: reqwest::Error,
    },
    /// More bytes than any key set should have.
    #[error("the key set has more than {MAX_SET} bytes")]
    Size,
    /// Contents that are no JSON, or no key set.
    #[error("the key set is not JSON with a list of `keys`")]
    Json(#[source] serde_json::Error),
    /// Key set without a key that verifies signatures.
    #[error("the key set has no public key of RSA, EC (P-256, P-384), or Ed25519 for signatures")]
    Empty,
}

impl KeySetError {
    /// Returns the next step.
    pub fn hint(&self) -> String {
        match self {
            Self::Read { path, source } if source.kind() == io::ErrorKind::PermissionDenied => {
                format!("let the user that runs ovms read {}", path.display())
            }
            Self::Read { .. } => {
                "`jwks` is a file, from the folder of this one on, or the URL of the key set"
                    .to_owned()
            }
            Self::Client { .. } | Self::Fetch { .. } => {
                "check that this machine reaches it; `jwks_uri` at \
                 ISSUER/.well-known/openid-configuration is the URL of most issuers"
                    .to_owned()
            }
            Self::Size | Self::Json(_) | Self::Empty => {
                "expected what the URL of the key set gives, such as `jwks_uri` at \
                 ISSUER/.well-known/openid-configuration"
                    .to_owned()
            }
        }
    }
}

/// Public key of an issuer.
#[derive(Debug, Clone)]
pub(super) struct IssuerKey {
    pub(super) id: Option<String>,
    pub(super) algorithms: Vec<Algorithm>,
    pub(super) key: DecodingKey,
}

impl PartialEq for IssuerKey {
    fn eq(&self, other: &Self) -> bool {
        use DecodingKeyKind::{RsaModulusExponent, SecretOrDer};
        let is_same_key = match (self.key.kind(), other.key.kind()) {
            (SecretOrDer(own), SecretOrDer(others)) => own == others,
            (
                RsaModulusExponent { n, e },
                RsaModulusExponent {
                    n: other_n,
                    e: other_e,
                },
            ) => (n, e) == (other_n, other_e),
            _ => false,
        };
        // The algorithms tell its family.
        is_same_key && self.id == other.id && self.algorithms == other.algorithms
    }
}

impl KeySetSource {
    /// Reads the keys of a file; blocks meanwhile.
    pub(super) fn read(path: &Path) -> Result<Vec<IssuerKey>, KeySetError> {
        let failed = |source| KeySetError::Read {
            path: path.to_owned(),
            source,
        };
        let mut text = Vec::new();
        let file = File::open(path).map_err(failed)?;
        let read = file.take(MAX_SET as u64 + 1).read_to_end(&mut text);
        read.map_err(failed)?;
        parse(&text)
    }

    /// Fetches the keys of a URL.
    pub(super) async fn fetch(url: &str) -> Result<Vec<IssuerKey>, KeySetError> {
        let failed = |source| KeySetError::Fetch {
            url: url.to_owned(),
            source,
        };
        let client = match url.starts_with("https:") {
            true => https::trusting(),
            // It is of this machine: no proxy that is set for others is to see it, or to answer in its place.
            false => https::plain().map(reqwest::ClientBuilder::no_proxy),
        };
        let client = client.map_err(|source| KeySetError::Client {
            url: url.to_owned(),
            source,
        })?;
        let client = client.timeout(FETCH);
        // Another address is another configuration.
        let client = client.redirect(reqwest::redirect::Policy::none()).build();
        let request = client.map_err(failed)?.get(url).send();
        let response = request.await.and_then(reqwest::Response::error_for_status);
        let mut response = response.map_err(|error| failed(error.without_url()))?;
        let mut text = Vec::new();
        while let Some(piece) = response
            .chunk()
            .await
            .map_err(|error| failed(error.without_url()))?
        {
            text.extend_from_slice(&piece);
            if text.len() > MAX_SET {
                return Err(KeySetError::Size);
            }
        }
        parse(&text)
    }
}

/// Reads a key set; keys of other kinds are passed over, as they may be for others.
pub(super) fn parse(text: &[u8]) -> Result<Vec<IssuerKey>, KeySetError> {
    #[derive(Deserialize)]
    struct KeySet {
        keys: Vec<Value>,
    }
    if text.len() > MAX_SET {
        return Err(KeySetError::Size);
    }
    let set: KeySet = serde_json::from_slice(text).map_err(KeySetError::Json)?;
    let keys = set.keys.into_iter().filter_map(key);
    let keys: Vec<_> = keys.take(MAX_KEYS).collect();
    match keys.is_empty() {
        true => Err(KeySetError::Empty),
        false => Ok(keys),
    }
}

fn key(value: Value) -> Option<IssuerKey> {
    let key: Jwk = serde_json::from_value(value).ok()?;
    let usual = match &key.algorithm {
        AlgorithmParameters::RSA(_) => &[
            Algorithm::RS256,
            Algorithm::RS384,
            Algorithm::RS512,
            Algorithm::PS256,
            Algorithm::PS384,
            Algorithm::PS512,
        ][..],
        AlgorithmParameters::EllipticCurve(of) => match of.curve {
            EllipticCurve::P256 => &[Algorithm::ES256],
            EllipticCurve::P384 => &[Algorithm::ES384],
            _ => return None,
        },
        AlgorithmParameters::OctetKeyPair(of) if of.curve == EllipticCurve::Ed25519 => {
            &[Algorithm::EdDSA]
        }
        _ => return None,
    };
    if !matches!(
        key.common.public_key_use,
        None | Some(PublicKeyUse::Signature)
    ) {
        return None;
    }
    // RFC 7517, 4.3: a key that lists operations is for no other.
    let operations = key.common.key_operations.as_ref();
    if operations.is_some_and(|all| !all.contains(&KeyOperations::Verify)) {
        return None;
    }
    let algorithms = match &key.common.key_algorithm {
        Some(named) => {
            let named = Algorithm::try_from(*named).ok()?;
            usual.contains(&named).then(|| vec![named])?
        }
        None => usual.to_vec(),
    };
    Some(IssuerKey {
        key: DecodingKey::from_jwk(&key).ok()?,
        id: key.common.key_id,
        algorithms,
    })
}

#[cfg(test)]
mod tests {
    use super::parse;
    use crate::error::chain;

    #[test]
    fn keys_of_other_kinds_are_passed_over() {
        let rsa = r#"{"kty":"RSA","kid":"a","use":"sig","n":"AQAB","e":"AQAB"}"#;
        let set = format!(
            r#"{{"keys":[{rsa},{{"kty":"RSA","use":"enc","n":"AQAB","e":"AQAB"}},
            {{"kty":"oct","k":"c2VjcmV0"}},{{"kty":"X"}},7,
            {{"kty":"EC","crv":"P-256","alg":"ES384","x":"AQAB","y":"AQAB"}},
            {{"kty":"RSA","key_ops":["encrypt"],"n":"AQAB","e":"AQAB"}},
            {{"kty":"RSA","kid":"v","key_ops":["verify"],"n":"AQAB","e":"AQAB"}},
            {{"kty":"OKP","crv":"Ed25519","x":"AQAB"}}]}}"#
        );
        let keys = parse(set.as_bytes()).unwrap();
        let found: Vec<_> = keys
            .iter()
            .map(|key| (key.id.as_deref(), key.algorithms.len()))
            .collect();
        assert_eq!(found, [(Some("a"), 6), (Some("v"), 6), (None, 1)]);
        assert_eq!(keys, parse(set.as_bytes()).unwrap());
        assert_ne!(
            keys,
            parse(set.replace("\"a\"", "\"b\"").as_bytes()).unwrap()
        );
    }

    #[test]
    fn what_is_no_key_set_is_refused() {
        let refused = |text: &str| chain(&parse(text.as_bytes()).unwrap_err());
        insta::assert_snapshot!(refused("x"), @"the key set is not JSON with a list of `keys`: expected value at line 1 column 1");
        insta::assert_snapshot!(refused("{}"), @"the key set is not JSON with a list of `keys`: missing field `keys` at line 1 column 2");
        insta::assert_snapshot!(refused(r#"{"keys":[{"kty":"oct","k":"eA"}]}"#), @"the key set has no public key of RSA, EC (P-256, P-384), or Ed25519 for signatures");
        assert!(refused(&" ".repeat(2 << 20)).contains("more than 1048576 bytes"));
    }
}
