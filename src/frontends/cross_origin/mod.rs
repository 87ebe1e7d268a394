//! Management paths and browsers: only pages of the server's own, under a name of its own, may use
//! them.
//!
//! A browser sends requests for any page that its user happens to look at. It says so with
//! `Origin` and `Sec-Fetch-Site`, which pages cannot forge; `Host` shows a name that was made to
//! point here (DNS rebinding). Orchestrators and scrapers send neither of the two, and are
//! not looked at any further.

use std::net::IpAddr;

use axum::http::{
    HeaderMap, HeaderName, HeaderValue, Method, Request, Uri, Version, header,
    uri::{Authority, Scheme},
};

use super::tfs::rest::is_about_sequences;
use crate::{
    config::ServerSettings,
    error::{Error, ErrorKind, Result},
    text::cut_chars,
};

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
const SEC_FETCH_MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");
const SEC_FETCH_DEST: HeaderName = HeaderName::from_static("sec-fetch-dest");

/// The paths that manage the server or report on it as a whole, each with what is below it.
const MANAGEMENT: [&str; 11] = [
    "/v1/config",
    "//v1/config",
    "/dashboard",
    "/docs",
    "/openapi.json",
    "/metrics",
    "/v2/repository",
    "/v2/logging",
    "/v2/trace",
    "/v2/systemsharedmemory",
    "/v2/cudasharedmemory",
];

/// Maximum number of characters of a header that an error repeats.
const MAX_REPEATED: usize = 200;

/// Checks that a request says once whom it is for, with one `Host` (RFC 9112, 3.2). HTTP/1.0 has no such header.
///
/// # Errors
///
/// Fails if it does not: what two servers in a row make of such a request need not be the same.
pub(super) fn check_host<B>(request: &Request<B>) -> Result<()> {
    let hosts = request.headers().get_all(header::HOST).iter().count();
    match hosts {
        1 => Ok(()),
        0 if request.version() == Version::HTTP_10 => Ok(()),
        hosts => Err(Error::invalid(format!(
            "a request needs one Host header; found {hosts}"
        ))),
    }
}

/// Checks that a request says once where its body ends: with no transfer coding but `chunked` (RFC 9112, 6.1).
///
/// # Errors
///
/// Fails if it has others, or one twice: what two servers in a row make of such a body need not be the same.
pub(super) fn check_transfer_coding(headers: &HeaderMap) -> Result<()> {
    let mut lines = headers.get_all(header::TRANSFER_ENCODING).iter();
    let Some(first) = lines.next() else {
        return Ok(());
    };
    if lines.next().is_none() && is_coding(first.as_bytes(), &[b"chunked"]) {
        return Ok(());
    }
    let lines = headers.get_all(header::TRANSFER_ENCODING).iter();
    let lines: Vec<_> = lines.map(HeaderValue::as_bytes).collect();
    let found = lines.join(&b", "[..]);
    let mut codings = found.split(|byte| *byte == b',').map(<[u8]>::trim_ascii);
    let is_known = codings.all(|coding| is_coding(coding, &[b"chunked", b"identity", b""]));
    let kind = match is_known {
        true => ErrorKind::InvalidArgument,
        false => ErrorKind::Unimplemented,
    };
    let text = format!(
        "a body may have the transfer coding `chunked` once; found {}",
        quoted(&found)
    );
    Err(Error::new(kind, text))
}

/// Returns whether a transfer coding is one of these.
fn is_coding(coding: &[u8], of: &[&[u8]]) -> bool {
    of.iter().any(|it| coding.eq_ignore_ascii_case(it))
}

/// Returns true if a path manages the server or reports on it as a whole.
pub(super) fn is_management(path: &str) -> bool {
    // Nearly all requests, and none of those below.
    if path.starts_with("/v2/models/") {
        return path.trim_end_matches('/') == "/v2/models/stats";
    }
    path == "/"
        || is_about_sequences(path)
        || MANAGEMENT.iter().any(|root| {
            path.strip_prefix(root)
                .is_some_and(|below| below.is_empty() || below.starts_with('/'))
        })
}

/// The hosts under whose names browsers may use management paths.
#[derive(Debug)]
pub(super) struct AllowedHosts {
    any: bool,
    names: Vec<String>,
    addresses: Vec<IpAddr>,
}

impl AllowedHosts {
    /// Reads the flag; without it, names of this machine for itself and the bound addresses.
    pub(super) fn new(settings: &ServerSettings) -> Self {
        let bound = [
            &settings.rest_bind_addresses,
            &settings.management_bind_addresses,
        ];
        let given = settings.allowed_hosts.clone();
        let hosts = given.unwrap_or_else(|| {
            let loopback = ["localhost", "127.0.0.1", "::1"].map(str::to_owned);
            loopback
                .into_iter()
                .chain(bound.into_iter().flatten().cloned())
                .collect()
        });
        let (addresses, names): (Vec<_>, Vec<_>) = (hosts.into_iter())
            .map(|host| host.parse().map_err(|_| host))
            .partition(Result::is_ok);
        let names: Vec<String> = names.into_iter().filter_map(Result::err).collect();
        Self {
            any: names.iter().any(|name| name == "*"),
            names,
            addresses: addresses.into_iter().flatten().collect(),
        }
    }

    fn contains(&self, host: &str) -> bool {
        let bare = host.strip_prefix('[').and_then(|it| it.strip_suffix(']'));
        let Ok(address) = bare.unwrap_or(host).parse::<IpAddr>() else {
            let name = host.strip_suffix('.').unwrap_or(host);
            return self.any || (self.names.iter()).any(|it| it.eq_ignore_ascii_case(name));
        };
        // The address of everything stands for each: a name can be made to point here, a number cannot.
        let fits = |it: &IpAddr| match it {
            IpAddr::V4(all) if all.is_unspecified() => address.is_ipv4(),
            IpAddr::V6(all) if all.is_unspecified() => true,
            own => own.to_canonical() == address.to_canonical(),
        };
        self.any || self.addresses.iter().any(fits)
    }

    /// Checks a request for a management path.
    ///
    /// # Errors
    ///
    /// Fails if a browser sends it for a page from elsewhere, or under another host's name.
    pub(super) fn check(&self, method: &Method, uri: &Uri, headers: &HeaderMap) -> Result<()> {
        if !is_of_page(headers) {
            return Ok(());
        }
        let named = headers.get(header::HOST).and_then(|it| it.to_str().ok());
        let host = match named {
            Some(text) => text.parse().ok(),
            None => uri.authority().cloned(),
        };
        let Some(host) = host.filter(|host: &Authority| self.contains(host.host())) else {
            let found = match named {
                Some(text) => quoted(text.as_bytes()),
                None => "none".to_owned(),
            };
            return Err(refused(format!(
                "Host is not one that browsers may use here; expected one of --allowed-hosts, \
                 found {found}"
            )));
        };
        for origin in headers.get_all(header::ORIGIN) {
            if !origin.to_str().is_ok_and(|origin| is_own(origin, &host)) {
                return Err(refused(format!(
                    "Pages of other origins may not use this path; expected the Origin of {host}, \
                     found {}",
                    quoted(origin.as_bytes())
                )));
            }
        }
        for site in headers.get_all(SEC_FETCH_SITE) {
            let site = site.as_bytes();
            if site != b"same-origin" && site != b"none" && !is_visit(method, uri, headers) {
                return Err(refused(format!(
                    "Pages of other origins may not use this path; expected Sec-Fetch-Site to be \
                     same-origin or none, found {}",
                    quoted(site)
                )));
            }
        }
        Ok(())
    }
}

/// Returns true if a browser may have sent a request for a page.
pub(super) fn is_of_page(headers: &HeaderMap) -> bool {
    headers.contains_key(header::ORIGIN) || headers.contains_key(SEC_FETCH_SITE)
}

/// Returns true if an origin is the one that a host's own pages have.
fn is_own(origin: &str, host: &Authority) -> bool {
    let Ok(origin) = origin.parse::<Uri>() else {
        return false;
    };
    let (Some(scheme), Some(authority)) = (origin.scheme(), origin.authority()) else {
        return false;
    };
    let usual = if *scheme == Scheme::HTTPS { 443 } else { 80 };
    authority.host().eq_ignore_ascii_case(host.host())
        && authority.port_u16().unwrap_or(usual) == host.port_u16().unwrap_or(usual)
}

/// Returns true if somebody follows a link to a page of the dashboard, which the page with the link sees nothing of.
fn is_visit(method: &Method, uri: &Uri, headers: &HeaderMap) -> bool {
    let is = |name: HeaderName, value: &str| headers.get(name).is_some_and(|it| it == value);
    let is_page = |path: &str| {
        path == "/" || path == "/dashboard" || path.starts_with("/dashboard/servables/")
    };
    method == Method::GET
        && is_page(uri.path())
        && is(SEC_FETCH_MODE, "navigate")
        && is(SEC_FETCH_DEST, "document")
}

fn refused(text: String) -> Error {
    Error::new(ErrorKind::Forbidden, text)
}

fn quoted(value: &[u8]) -> String {
    let text = String::from_utf8_lossy(value);
    format!("`{}`", cut_chars(&text, MAX_REPEATED))
}

#[cfg(test)]
mod tests;
