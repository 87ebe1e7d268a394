//! Refusals by services, read out of the storage library's errors, which nest and repeat each other.

use std::error::Error;

use object_store::client::{HttpError, HttpErrorKind};

use crate::text::first_chars;

/// Maximum length of a service's message that is shown, in characters.
const MAX_MESSAGE_LEN: usize = 300;

/// A refusal: status, and the code and message of the answer's XML or JSON.
#[derive(Debug, Clone, thiserror::Error)]
#[error(
    "the server answered {status}{}{}",
    code.as_deref().map(|code| format!(" {code}")).unwrap_or_default(),
    message.as_deref().map(|message| format!(": {message}")).unwrap_or_default()
)]
pub struct StorageRefusal {
    pub(super) status: u16,
    pub(super) code: Option<String>,
    message: Option<String>,
    /// The region that S3 names when it is asked in another.
    pub(super) region: Option<String>,
}

impl StorageRefusal {
    /// Reads an answer's body, which need not be what it should.
    pub(super) fn new(status: u16, region: Option<String>, body: &str) -> Self {
        let json: serde_json::Value = serde_json::from_str(body).unwrap_or_default();
        let error = &json["error"];
        let text = |value: &serde_json::Value| value.as_str().map(str::to_owned);
        let code = element(body, "Code")
            .or_else(|| text(&error["status"]))
            // OAuth has `error` and `error_description` side by side.
            .or_else(|| text(error));
        let message = element(body, "Message")
            .or_else(|| text(&error["message"]))
            .or_else(|| text(&json["error_description"]));
        Self {
            status,
            code,
            message: message.map(|text| shorten(&text)),
            region,
        }
    }

    /// Returns whether the service wants other credentials, or any.
    pub(super) fn wants_credentials(&self) -> bool {
        match self.status {
            401 | 403 => true,
            // Azure hides private containers from those without credentials.
            404 => self.code.as_deref() == Some("ResourceNotFound"),
            409 => self.code.as_deref() == Some("PublicAccessNotPermitted"),
            400 => matches!(
                self.code.as_deref(),
                Some("InvalidToken" | "ExpiredToken" | "invalid_grant")
            ),
            _ => false,
        }
    }

    /// Returns whether the key itself is wrong, rather than its rights.
    pub(super) fn is_about_the_key(&self) -> bool {
        matches!(
            self.code.as_deref(),
            Some(
                "SignatureDoesNotMatch"
                    | "InvalidAccessKeyId"
                    | "InvalidToken"
                    | "ExpiredToken"
                    | "invalid_grant"
                    | "AuthorizationFailure"
                    | "AuthenticationFailed"
            )
        )
    }

    /// Returns whether there is no such bucket.
    pub(super) fn is_missing_bucket(&self) -> bool {
        self.status == 404
            && matches!(
                self.code.as_deref(),
                None | Some("NoSuchBucket" | "ContainerNotFound")
            )
    }
}

/// Returns the text of the first element of a name.
fn element(xml: &str, name: &str) -> Option<String> {
    let (_, after) = xml.split_once(&format!("<{name}>"))?;
    let (text, _) = after.split_once("</")?;
    let text = quick_xml::escape::unescape(text).ok()?;
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}

/// Returns the first line of a text, cut to what a log line bears.
fn shorten(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default();
    first_chars(line, MAX_MESSAGE_LEN).to_owned()
}

/// The innermost cause of a failure; those around it repeat it.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct InnermostCause(String);

impl InnermostCause {
    pub(super) fn of(error: &(dyn Error + 'static)) -> Self {
        let mut innermost = error;
        while let Some(source) = innermost.source() {
            innermost = source;
        }
        Self(shorten(&innermost.to_string()))
    }
}

/// A failure of the storage library, by what can be done about it.
pub(super) enum Failure {
    /// The service refused.
    Refused(StorageRefusal),
    /// Absence or loss of the connection.
    Connection(InnermostCause),
    /// The connection's own time limits.
    TimedOut,
    /// An object's name is no path.
    Name(String),
    /// Any other failure.
    Other(InnermostCause),
}

impl Failure {
    pub(super) fn of(error: &object_store::Error) -> Self {
        if let object_store::Error::InvalidPath { source } = error {
            return Self::Name(path_of(source));
        }
        let mut next: Option<&(dyn Error + 'static)> = Some(error);
        let mut kind = None;
        while let Some(error) = next {
            if let Some(refused) = error.downcast_ref::<StorageRefusal>() {
                return Self::Refused(refused.clone());
            }
            if let Some(http) = error.downcast_ref::<HttpError>() {
                kind = Some(http.kind());
            }
            next = error.source();
        }
        match kind {
            Some(HttpErrorKind::Timeout) => Self::TimedOut,
            Some(HttpErrorKind::Connect | HttpErrorKind::Request | HttpErrorKind::Interrupted) => {
                Self::Connection(InnermostCause::of(error))
            }
            _ => Self::Other(InnermostCause::of(error)),
        }
    }
}

/// Returns the name that the storage library refuses.
fn path_of(error: &object_store::path::Error) -> String {
    use object_store::path::Error as E;
    match error {
        E::EmptySegment { path } | E::BadSegment { path, .. } => path.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::StorageRefusal;

    #[test]
    fn expired_credentials_are_denied() {
        let denied = |body| StorageRefusal::new(400, None, body).wants_credentials();
        assert!(denied("<Error><Code>ExpiredToken</Code></Error>"));
        assert!(denied(r#"{"error":"invalid_grant"}"#));
        assert!(!denied("<Error><Code>InvalidRequest</Code></Error>"));
    }

    #[test]
    fn answers_of_the_services_are_read() {
        let answers = [
            StorageRefusal::new(
                404,
                None,
                "<?xml version=\"1.0\"?><Error><Code>NoSuchBucket</Code><Message>It &amp; its \
                 objects are gone</Message></Error>",
            ),
            StorageRefusal::new(
                401,
                None,
                r#"{"error":{"status":"UNAUTHENTICATED","message":"no token"}}"#,
            ),
            StorageRefusal::new(
                400,
                None,
                r#"{"error":"invalid_grant","error_description":"it is expired"}"#,
            ),
            StorageRefusal::new(418, None, "<html>teapot"),
        ]
        .map(|refused| refused.to_string())
        .join("\n");
        insta::assert_snapshot!(answers, @r"
        the server answered 404 NoSuchBucket: It & its objects are gone
        the server answered 401 UNAUTHENTICATED: no token
        the server answered 400 invalid_grant: it is expired
        the server answered 418
        ");
    }
}
