//! Credentials in the head of a request.

use std::borrow::Cow;

use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use base64::{Engine as _, engine::general_purpose::STANDARD};

/// The header of an API key, for clients that have no other place for it.
const API_KEY: HeaderName = HeaderName::from_static("x-api-key");

/// The expected credentials, for errors.
pub(super) const EXPECTED: &str =
    "expected `authorization: Bearer` with an API key or token, or `x-api-key`";

/// Ways in which credentials may come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::frontends) enum Schemes {
    Bearer,
    /// Bearer, or the password that a browser asks its user for.
    BearerOrBasic,
}

/// A head whose credentials are not those of one sender.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(in crate::frontends) enum HeadError {
    #[error("there are several credentials")]
    Several,
    #[error("the credential is not of a kind that is known")]
    Scheme,
}

/// Finds the API key or token of a request: that of `authorization` if there is one.
///
/// # Errors
///
/// Fails if there are several, so that it is never up to the order which one counts, or it is of another scheme.
pub(in crate::frontends) fn secret(
    headers: &HeaderMap,
    schemes: Schemes,
) -> Result<Option<Cow<'_, str>>, HeadError> {
    if let Some(value) = only(headers, &header::AUTHORIZATION)? {
        let text = value.to_str().map_err(|_| HeadError::Scheme)?;
        let (scheme, rest) = text.split_once(' ').ok_or(HeadError::Scheme)?;
        let rest = rest.trim();
        return match schemes {
            _ if scheme.eq_ignore_ascii_case("bearer") => Ok(Some(rest.into())),
            Schemes::BearerOrBasic if scheme.eq_ignore_ascii_case("basic") => password(rest)
                .map(|it| Some(it.into()))
                .ok_or(HeadError::Scheme),
            _ => Err(HeadError::Scheme),
        };
    }
    match only(headers, &API_KEY)? {
        Some(value) => {
            let text = value.to_str().map_err(|_| HeadError::Scheme)?;
            Ok(Some(text.trim().into()))
        }
        None => Ok(None),
    }
}

fn only<'a>(
    headers: &'a HeaderMap,
    name: &HeaderName,
) -> Result<Option<&'a HeaderValue>, HeadError> {
    let mut values = headers.get_all(name).iter();
    let first = values.next();
    match values.next() {
        Some(_) => Err(HeadError::Several),
        None => Ok(first),
    }
}

/// Reads the password of a browser's user (RFC 7617); the name does not matter.
fn password(encoded: &str) -> Option<String> {
    let decoded = String::from_utf8(STANDARD.decode(encoded).ok()?).ok()?;
    let (_, password) = decoded.split_once(':')?;
    Some(password.to_owned())
}

#[cfg(test)]
mod tests {
    use axum::http::{HeaderMap, HeaderName};

    use super::{HeadError, Schemes, secret};

    fn headers(pairs: &[(&str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            let name: HeaderName = name.parse().unwrap();
            headers.append(name, value.parse().unwrap());
        }
        headers
    }

    #[test]
    fn one_credential_is_found() {
        let find = |pairs: &[(&str, &str)]| {
            let headers = headers(pairs);
            secret(&headers, Schemes::Bearer).map(|found| found.map(std::borrow::Cow::into_owned))
        };
        let found = |text: &str| Ok(Some(text.to_owned()));
        assert_eq!(find(&[]), Ok(None));
        assert_eq!(find(&[("authorization", "Bearer k")]), found("k"));
        assert_eq!(find(&[("authorization", "bEARER  k ")]), found("k"));
        assert_eq!(find(&[("x-api-key", "k")]), found("k"));
        let both = [("x-api-key", "a"), ("authorization", "Bearer b")];
        assert_eq!(find(&both), found("b"));
        let twice = [("authorization", "Bearer a"), ("authorization", "Bearer b")];
        assert_eq!(find(&twice), Err(HeadError::Several));
        assert_eq!(
            find(&[("x-api-key", "a"), ("x-api-key", "b")]),
            Err(HeadError::Several)
        );
        for other in ["k", "Basic eDprZXk=", "Digest k", ""] {
            assert_eq!(
                find(&[("authorization", other)]),
                Err(HeadError::Scheme),
                "{other}"
            );
        }
    }

    #[test]
    fn a_browser_has_a_password() {
        let find = |value: &str| {
            let headers = headers(&[("authorization", value)]);
            let found = secret(&headers, Schemes::BearerOrBasic);
            found.map(|found| found.map(std::borrow::Cow::into_owned))
        };
        assert_eq!(find("Basic eDprZTp5"), Ok(Some("ke:y".to_owned())));
        assert_eq!(find("basic OmtleQ=="), Ok(Some("key".to_owned())));
        for wrong in ["Basic", "Basic ?", "Basic eA==", "Basic /w=="] {
            assert_eq!(find(wrong), Err(HeadError::Scheme), "{wrong}");
        }
    }
}
