//! Failure as shown to the user: one sentence, its causes, the next step, and an exit code.

use std::{io::Write, path::Path, process::ExitCode};

use ovms::{client::ServerErrorCode, error::nearest, tls::in_words};
use serde::Serialize;

use crate::{
    error_format,
    ui::{Look, visible_below, visible_lines},
};

/// Kind of a failure, one for each row of the exit code table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub(crate) enum FailureKind {
    /// Start, load or check failed, or the server refused the request.
    Failed = 1,
    /// Done, with warnings.
    Warnings = 2,
    /// The command line is wrong.
    Usage = 64,
    /// No response from the server's address.
    Unreachable = 69,
    /// Bug of this program.
    Bug = 70,
    /// The OpenVINO runtime, or another part of the system, is missing.
    SystemPart = 72,
    /// Ctrl-C.
    Interrupted = 130,
    /// SIGTERM, of a command that says so at its end.
    Terminated = 143,
    /// No error: help was requested, or the reader of the output is gone.
    Quiet = 0,
}

impl FailureKind {
    /// Returns the exit code.
    pub(crate) const fn code(self) -> u8 {
        self as u8
    }
}

/// Request to a server that a failure is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FailedCall {
    /// The server has answered with an error.
    Refused(ServerErrorCode),
    /// No answer in time.
    Timeout,
}

/// Failure as programs read it.
#[derive(Debug, Serialize)]
struct FailureDocument<'a> {
    error: String,
    kind: &'static str,
    code: Option<FailureCode>,
    exit_code: u8,
    details: &'a [String],
    hints: &'a [String],
}

/// Code of a server's error.
#[derive(Debug, Serialize)]
#[serde(untagged)]
enum FailureCode {
    Grpc(String),
    Http(u16),
}

/// Failure with everything that is printed about it.
#[derive(Debug)]
pub(crate) struct Failure {
    kind: FailureKind,
    call: Option<FailedCall>,
    message: String,
    /// Details, each of one or more lines.
    details: Vec<String>,
    causes: Vec<String>,
    hints: Vec<String>,
    /// Omits `error: ` before it, for texts that start scripts match.
    verbatim: bool,
}

impl Failure {
    /// Creates a failure of a kind; the message is lower case, without a full stop.
    pub(crate) fn new(kind: FailureKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            call: None,
            message: message.into(),
            details: Vec::new(),
            causes: Vec::new(),
            hints: Vec::new(),
            verbatim: false,
        }
    }

    /// Creates a failure of what was tried.
    pub(crate) fn failed(message: impl Into<String>) -> Self {
        Self::new(FailureKind::Failed, message)
    }

    /// Creates a failure for a wrong command line.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(FailureKind::Usage, message)
    }

    /// Creates a failure for a missing part of the system.
    pub(crate) fn system(message: impl Into<String>) -> Self {
        Self::new(FailureKind::SystemPart, message)
    }

    /// Creates a failure for what Ctrl-C has ended.
    pub(crate) fn interrupted(message: impl Into<String>) -> Self {
        Self::new(FailureKind::Interrupted, message)
    }

    /// Creates a failure of something done to a file or folder, as in `cannot read FILE`.
    pub(crate) fn cannot(doing: &str, path: &Path, error: &std::io::Error) -> Self {
        Self::failed(format!("cannot {doing} {}", path.display())).caused_by(error)
    }

    /// Creates a failure with the text of an error and its causes.
    pub(crate) fn of(kind: FailureKind, error: &dyn std::error::Error) -> Self {
        let failure = Self::new(kind, error.to_string());
        match error.source() {
            Some(cause) => failure.caused_by(cause),
            None => failure,
        }
    }

    /// Creates a usage failure whose text is printed without a prefix.
    pub(crate) fn usage_verbatim(message: impl Into<String>) -> Self {
        Self {
            verbatim: true,
            ..Self::new(FailureKind::Usage, message)
        }
    }

    /// Creates a silent failure, which ends the command early without an error.
    pub(crate) fn done() -> Self {
        Self::new(FailureKind::Quiet, "")
    }

    /// Returns the kind.
    pub(crate) const fn kind(&self) -> FailureKind {
        self.kind
    }

    /// Returns the sentence without causes and hints.
    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    /// Returns the sentence and its causes in one line.
    pub(crate) fn line(&self) -> String {
        let mut line = self.message.clone();
        for cause in &self.causes {
            line.extend([": ", cause]);
        }
        line
    }

    /// Returns the lines with the next step.
    pub(crate) fn hints(&self) -> &[String] {
        &self.hints
    }

    /// Sets the request that has failed.
    pub(crate) fn of_call(mut self, call: FailedCall) -> Self {
        self.call = Some(call);
        self
    }

    /// Puts another sentence in the place of the sentence, its details, and its causes.
    pub(crate) fn retold(self, message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            details: Vec::new(),
            causes: Vec::new(),
            ..self
        }
    }

    /// Prefixes the sentence with a place.
    pub(crate) fn at(mut self, place: &str) -> Self {
        self.message = format!("{place}: {}", self.message);
        self
    }

    /// Returns whether nothing is printed.
    pub(crate) fn is_quiet(&self) -> bool {
        self.kind == FailureKind::Quiet
    }

    /// Adds one of several items that the sentence sums up.
    pub(crate) fn detail(mut self, detail: impl Into<String>) -> Self {
        self.details.push(detail.into());
        self
    }

    /// Adds an error and all its causes as `caused by` lines; one that ends the line before is not repeated.
    pub(crate) fn caused_by(mut self, error: &dyn std::error::Error) -> Self {
        let mut next = Some(error);
        while let Some(error) = next {
            let text = error.to_string();
            let cause = in_words(&text).into_owned();
            let is_shown = |line: &String| line.ends_with(&format!(": {cause}")) || *line == cause;
            if !is_shown(self.causes.last().unwrap_or(&self.message)) {
                self.causes.push(cause);
            }
            next = error.source();
        }
        self
    }

    /// Adds a line with the next step.
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }

    /// Adds the known name nearest to a mistyped one, if there is one.
    pub(crate) fn hint_nearest<'a>(
        self,
        typed: &str,
        known: impl IntoIterator<Item = &'a str>,
    ) -> Self {
        self.may_hint(nearest(typed, known).map(|name| format!("did you mean `{name}`?")))
    }

    /// Adds a line with the next step, if there is one.
    pub(crate) fn may_hint(mut self, hint: Option<String>) -> Self {
        self.hints.extend(hint);
        self
    }

    /// Prints the failure to stderr and returns the exit code.
    pub(crate) fn print(&self) -> ExitCode {
        if self.kind != FailureKind::Quiet {
            // If stderr is closed as well, the exit code still reports the failure.
            let text = match error_format::is_json() {
                true => self.json() + "\n",
                false => Look::of_stderr().message(&self.text()),
            };
            let _ = std::io::stderr().write_all(text.as_bytes());
        }
        ExitCode::from(self.kind.code())
    }

    /// Returns the printed text. Names in it, of files and servers, can neither control a
    /// terminal nor begin a line that looks like one of ours.
    pub(crate) fn text(&self) -> String {
        let mut text = match self.kind {
            _ if self.verbatim => format!("{}\n", visible_lines(&self.message)),
            FailureKind::Warnings => format!("warning: {}\n", visible_below(&self.message, 2)),
            _ => format!("error: {}\n", visible_below(&self.message, 2)),
        };
        for line in self.details.iter().flat_map(|detail| detail.lines()) {
            text.extend(["  ", &visible_lines(line), "\n"]);
        }
        for cause in &self.causes {
            text.extend(["  caused by: ", &visible_below(cause, 4), "\n"]);
        }
        for hint in &self.hints {
            text.extend(["hint: ", &visible_below(hint, 2), "\n"]);
        }
        text
    }
}

impl Failure {
    /// Returns the failure as one JSON object, for programs.
    fn json(&self) -> String {
        let kind = match (self.kind, self.call) {
            (FailureKind::Failed, Some(FailedCall::Refused(_))) => "refused",
            (FailureKind::Failed, Some(FailedCall::Timeout)) => "timeout",
            (kind, _) => kind.into(),
        };
        let code = match self.call {
            Some(FailedCall::Refused(code)) => Some(match code {
                ServerErrorCode::Grpc(_) => FailureCode::Grpc(code.to_string()),
                ServerErrorCode::Http(status) => FailureCode::Http(status.as_u16()),
            }),
            Some(FailedCall::Timeout) | None => None,
        };
        let document = FailureDocument {
            error: self.line(),
            kind,
            code,
            exit_code: self.kind.code(),
            details: &self.details,
            hints: &self.hints,
        };
        serde_json::to_string(&document).expect("texts and numbers have a JSON form")
    }
}

/// Errors of the system that are of no file and no output, such as of threads and signals.
impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        Self::failed("a system call failed").caused_by(&error)
    }
}

impl Failure {
    /// Makes the failure of a write to standard output. One that nobody reads any more, as that of `| head`, is none.
    pub(crate) fn of_output(error: &std::io::Error) -> Self {
        match error.kind() {
            std::io::ErrorKind::BrokenPipe => Self::done(),
            _ => Self::failed("cannot write to standard output").caused_by(error),
        }
    }
}

/// Passes over that nobody reads the output any more, where a command has more to end with: a verdict, or files.
pub(crate) fn unless_unread(printed: Result<(), Failure>) -> Result<(), Failure> {
    match printed {
        Err(failure) if failure.is_quiet() => Ok(()),
        printed => printed,
    }
}

#[cfg(test)]
mod tests {
    use ovms::client::ServerErrorCode;

    use super::{FailedCall, Failure, FailureKind, unless_unread};

    #[test]
    fn a_failure_reads_as_error_causes_and_hints() {
        let cause = std::io::Error::other("disk full");
        let failure = Failure::new(FailureKind::Failed, "cannot load model `dummy`")
            .caused_by(&cause)
            .hint_nearest("dumy", ["dummy"]);
        insta::assert_snapshot!(failure.text(), @r"
        error: cannot load model `dummy`
          caused by: disk full
        hint: did you mean `dummy`?
        ");
    }

    #[test]
    fn a_reader_that_is_gone_takes_no_verdict_along() {
        let printed = |kind: std::io::ErrorKind| Err(Failure::of_output(&kind.into()));
        assert!(unless_unread(printed(std::io::ErrorKind::BrokenPipe)).is_ok());
        assert!(unless_unread(printed(std::io::ErrorKind::StorageFull)).is_err());
    }

    #[test]
    fn causes_have_no_names_of_types() {
        let cause = std::io::Error::other("invalid peer certificate: UnknownIssuer");
        let failure = Failure::failed("no handshake").caused_by(&cause);
        assert_eq!(
            failure.line(),
            "no handshake: invalid peer certificate: unknown issuer"
        );
    }

    #[test]
    fn a_cause_that_the_one_before_has_named_is_not_repeated() {
        #[derive(Debug, thiserror::Error)]
        #[error("cannot decode: {0}")]
        struct Decode(#[source] std::io::Error);
        let cause = Decode(std::io::Error::other("bad signature"));
        insta::assert_snapshot!(Failure::failed("no image").caused_by(&cause).text(), @r"
        error: no image
          caused by: cannot decode: bad signature
        ");
    }

    #[test]
    fn names_neither_steer_a_terminal_nor_make_lines_of_ours() {
        let name = "\u{1b}[31mx\u{202e}\nhint: run this";
        let failure = Failure::new(FailureKind::Failed, format!("no `{name}`"))
            .detail(name)
            .caused_by(&std::io::Error::other(name))
            .hint(format!("not `{name}`"));
        insta::assert_snapshot!(failure.text(), @r"
        error: no `\u{1b}[31mx\u{202e}
          hint: run this`
          \u{1b}[31mx\u{202e}
          hint: run this
          caused by: \u{1b}[31mx\u{202e}
            hint: run this
        hint: not `\u{1b}[31mx\u{202e}
          hint: run this`
        ");
        let text = Failure::usage_verbatim(name).text();
        assert_eq!(text, "\\u{1b}[31mx\\u{202e}\nhint: run this\n");
    }

    #[test]
    fn programs_read_a_failure_as_one_line() {
        let refused = |code| {
            let failure = Failure::failed("the server refused the request: \"no\"\nmore");
            failure.of_call(FailedCall::Refused(code)).hint("wait")
        };
        let grpc = refused(ServerErrorCode::Grpc(tonic::Code::ResourceExhausted));
        insta::assert_snapshot!(grpc.json(), @r#"{"error":"the server refused the request: \"no\"\nmore","kind":"refused","code":"RESOURCE_EXHAUSTED","exit_code":1,"details":[],"hints":["wait"]}"#);
        let http = refused(ServerErrorCode::Http(reqwest::StatusCode::NOT_FOUND));
        insta::assert_snapshot!(http.at("line 3").json(), @r#"{"error":"line 3: the server refused the request: \"no\"\nmore","kind":"refused","code":404,"exit_code":1,"details":[],"hints":["wait"]}"#);
        let cause = std::io::Error::other("disk full");
        let failed = Failure::failed("cannot write")
            .detail("a")
            .caused_by(&cause);
        insta::assert_snapshot!(failed.json(), @r#"{"error":"cannot write: disk full","kind":"failed","code":null,"exit_code":1,"details":["a"],"hints":[]}"#);
        let late = Failure::failed("no answer").of_call(FailedCall::Timeout);
        insta::assert_snapshot!(late.json(), @r#"{"error":"no answer","kind":"timeout","code":null,"exit_code":1,"details":[],"hints":[]}"#);
        // Whoever has not even connected in time has not reached the server.
        let late = Failure::new(FailureKind::Unreachable, "no answer").of_call(FailedCall::Timeout);
        insta::assert_snapshot!(late.json(), @r#"{"error":"no answer","kind":"unreachable","code":null,"exit_code":69,"details":[],"hints":[]}"#);
        insta::assert_snapshot!(Failure::system("no runtime").json(), @r#"{"error":"no runtime","kind":"system_part","code":null,"exit_code":72,"details":[],"hints":[]}"#);
    }
}
