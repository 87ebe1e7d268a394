//! The crate's error: what went wrong, in words for the client, and the one table from kind to
//! gRPC code and HTTP status.
//!
//! Modules make errors with [`Error::new`]; frontends ask [`ErrorKind`] for the code and never
//! choose one themselves. The texts that clients of model servers match on are kept word for
//! word: a fixed text, then ` - ` and the detail.

use std::{fmt, time::Duration};

use crate::text::cut_bytes;

/// The longest text of an error that travels in a header, or waits for its client, in bytes.
pub const MAX_TEXT_LEN: usize = 2048;

/// Kind of an error: what its receiver can do about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// The request or the configuration is wrong; sending it again changes nothing.
    InvalidArgument,
    /// A REST body is not JSON at all.
    InvalidJson,
    /// No servable of this name or version.
    NotFound,
    /// The name to be created exists already.
    AlreadyExists,
    /// The version is known and not loaded yet; try again.
    NotLoaded,
    /// Every slot is taken and the queue is full, or the server is stopping; try again elsewhere.
    Overloaded,
    /// The bytes of requests and responses in flight are as many as may be; try again later.
    Exhausted,
    /// The request's state does not fit (for example a shape that the model refuses).
    FailedPrecondition,
    /// The request was fine and came to nothing.
    Aborted,
    /// The credential that is asked for is missing, or of nobody.
    Unauthorized,
    /// The request is not one that this client may send.
    Forbidden,
    /// The client has sent too much of it lately; try again later.
    Throttled,
    /// A message or body above the limit.
    TooLarge,
    /// The method of this path is another one.
    MethodNotAllowed,
    /// Known and not served.
    Unimplemented,
    /// The client's or the server's time limit passed.
    DeadlineExceeded,
    /// The client went away.
    Cancelled,
    /// The runtime or this server failed.
    Internal,
}

impl ErrorKind {
    /// Returns the gRPC status code.
    pub const fn grpc(self) -> tonic::Code {
        self.codes().0
    }

    /// Returns the HTTP status code.
    pub const fn http(self) -> u16 {
        self.codes().1
    }

    const fn codes(self) -> (tonic::Code, u16) {
        use tonic::Code;
        match self {
            Self::InvalidArgument => (Code::InvalidArgument, 400),
            Self::InvalidJson | Self::FailedPrecondition => (Code::FailedPrecondition, 412),
            Self::NotFound => (Code::NotFound, 404),
            Self::AlreadyExists => (Code::AlreadyExists, 409),
            Self::NotLoaded => (Code::Unavailable, 404),
            Self::Overloaded => (Code::Unavailable, 503),
            Self::Exhausted => (Code::ResourceExhausted, 503),
            Self::Aborted => (Code::Aborted, 409),
            Self::Unauthorized => (Code::Unauthenticated, 401),
            Self::Forbidden => (Code::PermissionDenied, 403),
            Self::Throttled => (Code::ResourceExhausted, 429),
            Self::TooLarge => (Code::ResourceExhausted, 413),
            Self::MethodNotAllowed => (Code::Unimplemented, 405),
            Self::Unimplemented => (Code::Unimplemented, 501),
            Self::DeadlineExceeded => (Code::DeadlineExceeded, 504),
            Self::Cancelled => (Code::Cancelled, 499),
            Self::Internal => (Code::Internal, 500),
        }
    }
}

/// An error of the engine: its kind, the text for the client, and the cause for the log.
#[derive(Debug)]
pub struct Error {
    kind: ErrorKind,
    message: String,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
    /// Time after which another attempt may succeed.
    wait: Option<Duration>,
    /// Marks an error whose reason is within the server, whatever its kind.
    is_within: bool,
    /// Marks an error that is already in the log.
    is_logged: bool,
    /// Marks an error that ended the reading of a body, of which the rest is still to come.
    leaves_body: bool,
}

/// Result of most functions of the crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// Makes an error of a kind with its text.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            source: None,
            wait: None,
            is_within: false,
            is_logged: false,
            leaves_body: false,
        }
    }

    /// Makes an [`ErrorKind::InvalidArgument`].
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::InvalidArgument, message)
    }

    /// Makes an [`ErrorKind::Internal`].
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Internal, message)
    }

    /// Makes an [`ErrorKind::DeadlineExceeded`] of a time limit that a client has set.
    pub fn deadline(limit: Duration) -> Self {
        Self::new(
            ErrorKind::DeadlineExceeded,
            format!("the client's deadline of {limit:?} passed"),
        )
    }

    /// Adds to the text for the client.
    #[must_use]
    pub fn with_more(mut self, more: &str) -> Self {
        self.message.push_str(more);
        self
    }

    /// Adds the cause.
    #[must_use]
    pub fn with_source(
        mut self,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        self.source = Some(source.into());
        self
    }

    /// Sets the time after which another attempt may succeed, for the headers of the answer.
    #[must_use]
    pub fn retry_after(mut self, wait: Duration) -> Self {
        self.wait = Some(wait);
        self
    }

    /// Marks it as one whose reason is within the server, although clients receive a code that others have as well.
    #[must_use]
    pub fn within(mut self) -> Self {
        self.is_within = true;
        self
    }

    /// Returns whether its reason is within the server: that is nothing a client can change.
    pub fn is_within(&self) -> bool {
        self.is_within || self.kind == ErrorKind::Internal
    }

    /// Marks it as one that is in the log already, with more than its text.
    #[must_use]
    pub fn logged(mut self) -> Self {
        self.is_logged = true;
        self
    }

    /// Returns whether it is in the log already.
    pub fn is_logged(&self) -> bool {
        self.is_logged
    }

    /// Cuts the text to [`MAX_TEXT_LEN`]: it may repeat any amount of what a client has sent.
    #[must_use]
    pub fn cut(mut self) -> Self {
        if self.message.len() > MAX_TEXT_LEN {
            self.message = cut_bytes(&self.message, MAX_TEXT_LEN);
        }
        self
    }

    /// Marks it as one that ended the reading of a body, so that the connection ends with it.
    #[must_use]
    pub fn leaving_body(mut self) -> Self {
        self.leaves_body = true;
        self
    }

    /// Returns whether it ended the reading of a body.
    pub fn leaves_body(&self) -> bool {
        self.leaves_body
    }

    /// Returns the time after which another attempt may succeed, if that is known.
    pub fn wait(&self) -> Option<Duration> {
        self.wait
    }

    /// Returns the kind.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// Returns the text for the client, without the cause.
    pub fn message(&self) -> &str {
        &self.message
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_deref().map(|source| source as _)
    }
}

/// Returns a time to wait in milliseconds, rounded up, so that whoever waits does not come too early.
pub fn whole_milliseconds(wait: Duration) -> u64 {
    u64::try_from(wait.as_micros().div_ceil(1000)).unwrap_or(u64::MAX)
}

/// Writes an error and its causes in one line, for the log.
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}

/// Returns the known name nearest to a mistyped one, if one is near enough to be meant.
pub fn nearest<'a>(typed: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let mut best: Option<(f64, &str)> = None;
    for name in known {
        let score = strsim::jaro_winkler(&typed.to_lowercase(), &name.to_lowercase());
        if score > 0.75 && best.is_none_or(|(top, _)| score > top) {
            best = Some((score, name));
        }
    }
    best.map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::{Error, MAX_TEXT_LEN, chain, nearest};

    #[test]
    fn a_text_that_is_cut_stays_so() {
        let short = Error::invalid("short").cut();
        assert_eq!(short.message(), "short");
        // The limit is within a character.
        let long = Error::invalid(format!("a{}", "ü".repeat(MAX_TEXT_LEN))).cut();
        assert_eq!(long.message().len(), MAX_TEXT_LEN - 1 + "…".len());
        let text = long.message().to_owned();
        assert_eq!(long.cut().message(), text);
    }

    #[test]
    fn chain_names_every_cause() {
        let cause = Error::internal("disk full");
        let error = Error::invalid("cannot load").with_source(cause);
        assert_eq!(chain(&error), "cannot load: disk full");
    }

    #[test]
    fn nearest_finds_a_typing_error_and_refuses_a_stranger() {
        assert_eq!(
            nearest("clasifier", ["dummy", "classifier"]),
            Some("classifier")
        );
        assert_eq!(nearest("zebra", ["dummy", "classifier"]), None);
    }
}
