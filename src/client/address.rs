//! Where a server listens, as people write it: `host:port` with an optional scheme.

use std::fmt;

use serde::Serialize;
use strum::VariantArray;

/// A server's host and port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    /// A name or an IP address; IPv6 without brackets.
    host: String,
    port: u16,
}

/// Why a text is not an address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// TLS, or a protocol that no server here speaks.
    #[error("found the scheme `{0}`, expected `http` or `grpc`, or none")]
    Scheme(String),
    /// The scheme and the API contradict each other.
    #[error("found the scheme `{scheme}`, which does not fit the API {api}")]
    OtherApi {
        /// The scheme as written.
        scheme: String,
        /// The API that was asked for.
        api: Api,
    },
    /// No host, or one with characters that no host has.
    #[error("found the host `{0}`, expected a name or an IP address")]
    Host(String),
    /// The port is no number from 1 to 65535.
    #[error("found the port `{0}`, expected a number from 1 to 65535")]
    Port(String),
    /// Something stands after the port.
    #[error("found `{0}` after the host and port, expected nothing")]
    Path(String),
}

impl Address {
    /// Reads `[SCHEME://]HOST[:PORT]`; the port is the API's usual one if it is left out.
    ///
    /// # Errors
    ///
    /// Fails if a part is missing or of another form.
    pub fn parse(text: &str, api: Api) -> Result<Self, AddressError> {
        let rest = match text.split_once("://") {
            None => text,
            Some((scheme, rest)) => {
                match (scheme.to_ascii_lowercase().as_str(), api.is_grpc()) {
                    ("http", _) | ("grpc", true) => {}
                    ("grpc", false) => {
                        let scheme = scheme.to_owned();
                        return Err(AddressError::OtherApi { scheme, api });
                    }
                    _ => return Err(AddressError::Scheme(scheme.to_owned())),
                }
                rest
            }
        };
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        if let Some(slash) = rest.find(['/', '?', '#']) {
            return Err(AddressError::Path(rest[slash..].to_owned()));
        }
        let (host, port) = split(rest)?;
        let port = match port {
            None => api.port(),
            Some(digits) => match digits.parse() {
                Ok(port) if port > 0 => port,
                _ => return Err(AddressError::Port(digits.to_owned())),
            },
        };
        let host = host.to_owned();
        let address = Self { host, port };
        match reqwest::Url::parse(&address.url()) {
            Ok(url) if url.username().is_empty() && url.password().is_none() => Ok(address),
            _ => Err(AddressError::Host(address.host)),
        }
    }

    /// Returns the address as a URL without a path.
    pub fn url(&self) -> String {
        format!("http://{self}")
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

/// Splits host and port; colons without brackets are an IPv6 address if there are several.
fn split(text: &str) -> Result<(&str, Option<&str>), AddressError> {
    if let Some(rest) = text.strip_prefix('[') {
        let (host, after) = rest
            .split_once(']')
            .ok_or_else(|| AddressError::Host(text.to_owned()))?;
        return match (after, after.strip_prefix(':')) {
            ("", _) => Ok((host, None)),
            (_, Some(port)) => Ok((host, Some(port))),
            (_, None) => Err(AddressError::Host(text.to_owned())),
        };
    }
    match text.split_once(':') {
        Some((_, rest)) if rest.contains(':') => Ok((text, None)),
        Some((host, port)) => Ok((host, Some(port))),
        None => Ok((text, None)),
    }
}

/// A protocol of model servers.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, strum::Display, strum::EnumString, VariantArray, Serialize,
)]
#[strum(serialize_all = "kebab-case")]
#[serde(rename_all = "kebab-case")]
pub enum Api {
    /// KServe v2 over gRPC.
    KserveGrpc,
    /// KServe v2 over REST.
    KserveRest,
    /// TensorFlow Serving over gRPC.
    TfsGrpc,
    /// TensorFlow Serving over REST.
    TfsRest,
}

impl Api {
    /// Returns KServe's over the transport that an address names by its scheme; gRPC without one.
    pub fn of_scheme(address: &str) -> Self {
        let scheme = address.split_once("://").map(|(scheme, _)| scheme);
        match scheme.is_some_and(|scheme| scheme.eq_ignore_ascii_case("http")) {
            true => Self::KserveRest,
            false => Self::KserveGrpc,
        }
    }

    /// Returns the port that servers usually have it on.
    pub const fn port(self) -> u16 {
        if self.is_grpc() { 9000 } else { 8000 }
    }

    /// Returns whether it goes over gRPC.
    pub const fn is_grpc(self) -> bool {
        matches!(self, Self::KserveGrpc | Self::TfsGrpc)
    }

    /// Returns whether it is one of TensorFlow Serving's; their requests have neither id nor
    /// parameters.
    pub const fn is_tfs(self) -> bool {
        matches!(self, Self::TfsGrpc | Self::TfsRest)
    }
}

#[cfg(test)]
mod tests {
    use super::{Address, Api};

    #[test]
    fn addresses_are_read_as_people_write_them() {
        for (text, api, expected) in [
            ("localhost:9000", Api::KserveGrpc, "localhost:9000"),
            ("localhost", Api::KserveGrpc, "localhost:9000"),
            ("localhost", Api::KserveRest, "localhost:8000"),
            (
                "http://server.example:80/",
                Api::KserveRest,
                "server.example:80",
            ),
            ("http://10.0.0.1:9001", Api::KserveGrpc, "10.0.0.1:9001"),
            ("grpc://models", Api::KserveGrpc, "models:9000"),
            ("[::1]:9000", Api::KserveGrpc, "[::1]:9000"),
            ("[::1]", Api::KserveRest, "[::1]:8000"),
            ("::1", Api::TfsRest, "[::1]:8000"),
            ("grpc://models", Api::TfsGrpc, "models:9000"),
            ("http://[fe80::2]:1", Api::KserveRest, "[fe80::2]:1"),
        ] {
            let address = Address::parse(text, api).unwrap();
            assert_eq!(address.to_string(), expected, "{text}");
            assert_eq!(address.url(), format!("http://{expected}"));
        }
    }

    #[test]
    fn the_scheme_names_the_transport() {
        for (text, expected) in [
            ("http://a", Api::KserveRest),
            ("HTTP://a:1", Api::KserveRest),
            ("grpc://a", Api::KserveGrpc),
            ("a:8000", Api::KserveGrpc),
        ] {
            assert_eq!(Api::of_scheme(text), expected, "{text}");
        }
    }

    #[test]
    fn what_is_no_address_is_refused_with_the_part_that_is_wrong() {
        for (text, api, expected) in [
            (
                "https://a",
                Api::KserveRest,
                "found the scheme `https`, expected `http` or `grpc`, or none",
            ),
            (
                "grpc://a",
                Api::KserveRest,
                "found the scheme `grpc`, which does not fit the API kserve-rest",
            ),
            (
                "",
                Api::KserveGrpc,
                "found the host ``, expected a name or an IP address",
            ),
            (
                ":9000",
                Api::KserveGrpc,
                "found the host ``, expected a name or an IP address",
            ),
            (
                "a b",
                Api::KserveGrpc,
                "found the host `a b`, expected a name or an IP address",
            ),
            (
                "u@a",
                Api::KserveGrpc,
                "found the host `u@a`, expected a name or an IP address",
            ),
            (
                "[::1",
                Api::KserveGrpc,
                "found the host `[::1`, expected a name or an IP address",
            ),
            (
                "a:b",
                Api::KserveGrpc,
                "found the port `b`, expected a number from 1 to 65535",
            ),
            (
                "a:0",
                Api::KserveGrpc,
                "found the port `0`, expected a number from 1 to 65535",
            ),
            (
                "a:1/v2",
                Api::KserveRest,
                "found `/v2` after the host and port, expected nothing",
            ),
        ] {
            let error = Address::parse(text, api).unwrap_err();
            assert_eq!(error.to_string(), expected, "{text}");
        }
    }
}
