//! Address of a server, as people write it: `host:port` with an optional scheme, or `unix:PATH`.

use std::{
    fmt,
    path::{Path, PathBuf},
};

use serde::Serialize;
use strum::VariantArray;

/// A server's host and port, or its Unix socket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address(Place);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Place {
    Port {
        /// A name or an IP address; IPv6 without brackets.
        host: String,
        port: u16,
        /// The scheme of TLS, if it has that: `https` or `grpcs`.
        tls: Option<&'static str>,
    },
    Unix(PathBuf),
}

/// Error of parsing an address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// A protocol that no server here speaks.
    #[error("found the scheme `{0}`, expected `http`, `https`, `grpc` or `grpcs`, or none")]
    Scheme(String),
    /// The scheme and the API contradict each other.
    #[error("found the scheme `{scheme}`, which does not fit the API {api}")]
    OtherApi {
        /// The scheme as written.
        scheme: String,
        /// The API that was asked for.
        api: Api,
    },
    /// `unix:` without a path.
    #[error("found no path after `unix:`, expected that of a Unix socket")]
    UnixPath,
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
    /// Reads `[SCHEME://]HOST[:PORT]`, over TLS with `https` or `grpcs`, where the port is the API's usual one if it is left out, or
    /// `unix:PATH`, also as `unix:///PATH`, as gRPC has it.
    ///
    /// # Errors
    ///
    /// Fails if a part is missing or of another form.
    pub fn parse(text: &str, api: Api) -> Result<Self, AddressError> {
        if let Some(path) = text.strip_prefix("unix:") {
            let path = path.strip_prefix("//").unwrap_or(path);
            return match path {
                "" => Err(AddressError::UnixPath),
                path => Ok(Self(Place::Unix(path.into()))),
            };
        }
        let (tls, rest) = match text.split_once("://") {
            None => (None, text),
            Some((scheme, rest)) => {
                let tls = match (scheme.to_ascii_lowercase().as_str(), api.is_grpc()) {
                    ("http", _) | ("grpc", true) => None,
                    ("https", false) => Some("https"),
                    ("https" | "grpcs", true) => Some("grpcs"),
                    ("grpc" | "grpcs", false) => {
                        let scheme = scheme.to_owned();
                        return Err(AddressError::OtherApi { scheme, api });
                    }
                    _ => return Err(AddressError::Scheme(scheme.to_owned())),
                };
                (tls, rest)
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
        let address = Self(Place::Port {
            host: host.clone(),
            port,
            tls,
        });
        match reqwest::Url::parse(&address.url()) {
            // A URL may have an empty user, too.
            Ok(url)
                if url.username().is_empty() && url.password().is_none() && !host.contains('@') =>
            {
                Ok(address)
            }
            _ => Err(AddressError::Host(host)),
        }
    }

    /// Returns the address as a URL without a path; behind a Unix socket, any host will do.
    pub fn url(&self) -> String {
        match &self.0 {
            Place::Port { tls, .. } => {
                let scheme = if tls.is_some() { "https" } else { "http" };
                format!("{scheme}://{}", self.authority())
            }
            Place::Unix(_) => "http://localhost".to_owned(),
        }
    }

    /// Returns host and port, or `localhost` where it is a Unix socket.
    pub fn authority(&self) -> String {
        match &self.0 {
            Place::Port { host, port, .. } if host.contains(':') => format!("[{host}]:{port}"),
            Place::Port { host, port, .. } => format!("{host}:{port}"),
            Place::Unix(_) => "localhost".to_owned(),
        }
    }

    /// Returns the host, IPv6 without brackets, and the port, unless it is a Unix socket.
    pub fn host(&self) -> Option<(&str, u16)> {
        match &self.0 {
            Place::Port { host, port, .. } => Some((host, *port)),
            Place::Unix(_) => None,
        }
    }

    /// Returns whether it is asked over TLS.
    pub fn is_tls(&self) -> bool {
        matches!(self.0, Place::Port { tls: Some(_), .. })
    }

    /// Returns the same address with the scheme of TLS; `None` if it has that, or is a Unix socket.
    pub fn with_tls(&self, api: Api) -> Option<Self> {
        match &self.0 {
            Place::Port {
                host,
                port,
                tls: None,
            } => Some(Self(Place::Port {
                host: host.clone(),
                port: *port,
                tls: Some(if api.is_grpc() { "grpcs" } else { "https" }),
            })),
            _ => None,
        }
    }

    /// Returns the address as it is written without TLS; `None` if it has none.
    pub fn without_tls(&self) -> Option<String> {
        match &self.0 {
            Place::Port { tls: Some(tls), .. } => {
                let scheme = tls.trim_end_matches('s');
                Some(format!("{scheme}://{}", self.authority()))
            }
            _ => None,
        }
    }

    /// Returns the path of the Unix socket, if it is one.
    pub fn unix_socket(&self) -> Option<&Path> {
        match &self.0 {
            Place::Port { .. } => None,
            Place::Unix(path) => Some(path),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Place::Port { host, tls, .. } => {
                if let Some(scheme) = tls {
                    write!(f, "{scheme}://")?;
                } else if host == "unix" {
                    // It would be a socket without.
                    f.write_str("http://")?;
                }
                f.write_str(&self.authority())
            }
            Place::Unix(path) => write!(f, "unix:{}", path.display()),
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
        let scheme = address
            .split_once("://")
            .map(|(scheme, _)| scheme.to_ascii_lowercase());
        match scheme.as_deref() {
            Some("http" | "https") => Self::KserveRest,
            _ => Self::KserveGrpc,
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
    fn a_host_of_any_name_is_shown_as_an_address_that_leads_there() {
        let address = Address::parse("http://unix:9000", Api::KserveGrpc).unwrap();
        assert_eq!(address.to_string(), "http://unix:9000");
        let again = Address::parse(&address.to_string(), Api::KserveGrpc);
        assert_eq!(again, Ok(address));
        let user = Address::parse("http://@server:80", Api::KserveRest);
        assert_eq!(
            user.unwrap_err().to_string(),
            "found the host `@server`, expected a name or an IP address"
        );
    }

    #[test]
    fn schemes_of_tls_are_kept() {
        for (text, api, shown) in [
            ("https://a", Api::KserveRest, "https://a:8000"),
            ("https://a:1", Api::KserveGrpc, "grpcs://a:1"),
            ("GRPCS://[::1]", Api::TfsGrpc, "grpcs://[::1]:9000"),
        ] {
            let address = Address::parse(text, api).unwrap();
            assert!(address.is_tls());
            assert_eq!(address.to_string(), shown);
            assert_eq!(address.url(), format!("https://{}", address.authority()));
            assert_eq!(address.with_tls(api), None);
        }
        let plain = Address::parse("a:1", Api::KserveGrpc).unwrap();
        let with = plain.with_tls(Api::KserveGrpc).unwrap();
        assert_eq!(with.to_string(), "grpcs://a:1");
    }

    #[test]
    fn unix_sockets_are_addresses_of_every_api() {
        for (text, path) in [
            ("unix:/run/o.sock", "/run/o.sock"),
            ("unix:///run/o.sock", "/run/o.sock"),
            ("unix:o.sock", "o.sock"),
        ] {
            let address = Address::parse(text, Api::TfsRest).unwrap();
            assert_eq!(address.unix_socket(), Some(path.as_ref()), "{text}");
            assert_eq!(address.to_string(), format!("unix:{path}"));
            assert_eq!(address.url(), "http://localhost");
        }
    }

    #[test]
    fn the_scheme_names_the_transport() {
        for (text, expected) in [
            ("http://a", Api::KserveRest),
            ("HTTP://a:1", Api::KserveRest),
            ("https://a", Api::KserveRest),
            ("grpcs://a", Api::KserveGrpc),
            ("unix:/run/o.sock", Api::KserveGrpc),
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
                "ftp://a",
                Api::KserveRest,
                "found the scheme `ftp`, expected `http`, `https`, `grpc` or `grpcs`, or none",
            ),
            (
                "grpcs://a",
                Api::TfsRest,
                "found the scheme `grpcs`, which does not fit the API tfs-rest",
            ),
            (
                "grpc://a",
                Api::KserveRest,
                "found the scheme `grpc`, which does not fit the API kserve-rest",
            ),
            (
                "unix:",
                Api::KserveGrpc,
                "found no path after `unix:`, expected that of a Unix socket",
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
