//! `ovms doctor`: everything that a bug report needs, on one screen, with next steps.
//!
//! Each file below checks one subject and returns [`Check`]s. Checks that
//! may crash or hang run in a process of their own, with a time limit.

mod endpoint;
mod environment;
mod holder;
mod identities;
mod runtime;
mod system;

use std::{
    env,
    path::{Path, PathBuf},
};

use serde::Serialize;

use super::{
    error::{Failure, FailureKind, unless_unread},
    infer::{CredentialArgs, TlsArgs},
    ui::{self, Look, visible, wrapped},
};

pub(crate) use runtime::probe as probe_python;

/// Text at the end of the help.
const AFTER_HELP: &str = "\
The report has no secrets: variables that may hold some are listed by name only, and the home \
folder is written as ~. Nothing is changed, and no connections are made except to this machine and \
to the address of --url.

Examples:
  ovms doctor
  ovms doctor --rest-port 8080
  ovms doctor --url grpcs://models.example:9000 --cacert ca.pem
  ovms doctor --auth auth.toml
  ovms doctor --output json |
      jq -r '.checks[] | select(.status != \"ok\") | .text'

Exit codes: 0 all is well; 1 the report cannot be written; 2 something may need attention; 64 \
usage; 72 no OpenVINO runtime works.";

/// The flags as typed.
#[derive(Debug, clap::Args)]
#[command(after_long_help = AFTER_HELP)]
pub(crate) struct DoctorArgs {
    /// gRPC port to check
    #[arg(long = "port", value_name = "PORT", default_value_t = 9000)]
    port: u16,
    /// REST port to check
    #[arg(long = "rest-port", value_name = "PORT", default_value_t = 8000)]
    rest_port: u16,
    /// Server to check, with its TLS, such as grpcs://HOST:PORT
    ///
    /// http:// and https:// mean REST, anything else gRPC; unix:PATH is a Unix socket.
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    #[command(flatten)]
    credentials: CredentialArgs,
    #[command(flatten)]
    tls: TlsArgs,
    /// File of identities, their credentials, and rights (TOML)
    #[arg(long, value_name = "FILE")]
    auth: Option<PathBuf>,
    #[command(flatten)]
    output: ui::OutputArgs,
}

/// Runs all checks and prints the report.
pub(crate) fn run(args: &DoctorArgs) -> Result<(), Failure> {
    let mut checks = system::all();
    checks.extend(runtime::all());
    checks.push(runtime::check());
    checks.extend(system::ports(args.port, args.rest_port)?);
    checks.extend(endpoint::checks(
        args.url.as_deref(),
        &args.credentials,
        &args.tls,
    )?);
    checks.extend(args.auth.as_deref().map(identities::check));
    checks.push(environment::check());
    checks.extend(environment::all());
    checks.extend(environment::shell());
    let report = Report::new(checks);
    unless_unread(ui::print(match args.output.is_json() {
        true => report.json() + "\n",
        false => report.text(ui::Look::of_stdout(), ui::columns()),
    }))?;
    match report.status {
        Status::Ok | Status::Note => Ok(()),
        Status::Warn => {
            let number = report.count(Status::Warn);
            let text = format!("{} may need attention", ui::counted(number, "thing"));
            Err(Failure::new(FailureKind::Warnings, text))
        }
        Status::Fail => Err(Failure::system("there is no OpenVINO runtime that works")),
    }
}

/// Widths of the columns for state and name.
const STATE: usize = 6;
const NAME: usize = 12;

/// Line width for short details without a terminal.
const PAGE: usize = 80;

/// Result of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
enum Status {
    /// Good.
    Ok,
    /// Neither good nor bad.
    Note,
    /// Warning of something that may fail.
    Warn,
    /// Error because of which no model can be served.
    Fail,
}

impl Status {
    /// Returns the word with its colour.
    fn shown(self, look: Look) -> String {
        let (word, colour) = match self {
            Self::Ok => ("ok", 32),
            Self::Note => ("note", 0),
            Self::Warn => ("warn", 33),
            Self::Fail => ("fail", 31),
        };
        match look != Look::Boxed || colour == 0 {
            true => format!("{word:<STATE$}"),
            false => format!("\x1b[{colour}m{word:<STATE$}\x1b[0m"),
        }
    }
}

/// Check with its result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct Check {
    /// Name; the same in all releases.
    name: &'static str,
    status: Status,
    text: String,
    details: Vec<String>,
    /// Next step.
    hint: Option<String>,
}

impl Check {
    /// Creates a check with its result, in one line.
    fn new(name: &'static str, status: Status, text: impl Into<String>) -> Self {
        Self {
            name,
            status,
            text: text.into(),
            details: Vec::new(),
            hint: None,
        }
    }

    /// Adds a line.
    fn detail(mut self, detail: impl Into<String>) -> Self {
        self.details.push(detail.into());
        self
    }

    /// Adds lines, or none.
    fn details(mut self, details: impl IntoIterator<Item = String>) -> Self {
        self.details.extend(details);
        self
    }

    /// Sets the next step.
    fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Writes the home folder as `~` everywhere.
    fn without_home(mut self, home: &str) -> Self {
        let texts = std::iter::once(&mut self.text)
            .chain(&mut self.details)
            .chain(&mut self.hint);
        for text in texts {
            *text = tilde(text, home);
        }
        self
    }
}

/// All checks.
#[derive(Debug, Serialize)]
struct Report {
    ovms: &'static str,
    /// Worst status of all checks.
    status: Status,
    checks: Vec<Check>,
}

impl Report {
    /// Collects checks, in their order.
    fn new(checks: Vec<Check>) -> Self {
        let home = env::var("HOME").unwrap_or_default();
        let home = home.trim_end_matches('/');
        let worst = checks.iter().map(|check| check.status).max();
        // A note is nothing to act on.
        let worst = worst.filter(|status| *status > Status::Note);
        let checks = checks.into_iter().map(|check| check.without_home(home));
        Self {
            ovms: env!("CARGO_PKG_VERSION"),
            status: worst.unwrap_or(Status::Ok),
            checks: checks.collect(),
        }
    }

    /// Returns the number of checks with a status.
    fn count(&self, status: Status) -> usize {
        let checks = self.checks.iter();
        checks.filter(|check| check.status == status).count()
    }

    /// Returns the report for scripts.
    fn json(&self) -> String {
        serde_json::to_string(self).expect("texts and lists are JSON")
    }

    /// Returns the report for people.
    fn text(&self, look: Look, columns: Option<usize>) -> String {
        let indent = STATE + NAME;
        let room = columns.map(|columns| columns.saturating_sub(indent));
        let page = columns.unwrap_or(PAGE).saturating_sub(indent);
        let mut text = String::new();
        for check in &self.checks {
            let mut front = format!("{}{:<NAME$}", check.status.shown(look), check.name);
            let hint = check
                .hint
                .iter()
                .map(|hint| format!("hint: {}", visible(hint)));
            let found = std::iter::once(&check.text).chain(&check.details);
            let lines = packed(found.map(|line| visible(line)), page);
            let lines = lines.into_iter().chain(hint);
            for line in lines.flat_map(|line| wrapped(&line, room)) {
                text.extend([format!("{front}{line}").trim_end(), "\n"]);
                front = " ".repeat(indent);
            }
        }
        text
    }
}

/// Packs texts into lines of limited width.
fn packed(texts: impl Iterator<Item = impl AsRef<str>>, room: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for text in texts {
        let text = text.as_ref();
        match lines.last_mut() {
            Some(line) if line.chars().count() + 2 + text.chars().count() <= room => {
                line.extend(["; ", text]);
            }
            _ => lines.push(text.to_owned()),
        }
    }
    lines
}

/// Writes the home folder as `~` in a text.
fn tilde(text: &str, home: &str) -> String {
    // A process without a user has `/`, and everything begins with that.
    if !Path::new(home).is_absolute() {
        return text.to_owned();
    }
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find(home) {
        let end = start + home.len();
        let is_whole = !rest[end..].starts_with(|c: char| c.is_alphanumeric() || "-_.".contains(c));
        shown.push_str(&rest[..start]);
        shown.push_str(if is_whole { "~" } else { home });
        rest = &rest[end..];
    }
    shown + rest
}

#[cfg(test)]
mod tests {
    use super::{Check, Report, Status, tilde};
    use crate::ui::Look;

    #[test]
    fn the_home_folder_is_a_tilde() {
        let home = "/home/ann";
        assert_eq!(tilde("in /home/ann/x and /home/ann", home), "in ~/x and ~");
        assert_eq!(tilde("/home/anna, /home/ann:x", home), "/home/anna, ~:x");
        assert_eq!(tilde("/x", ""), "/x");
        assert_eq!(tilde("/x", "relative"), "/x");
    }

    #[test]
    fn a_report_is_columns_and_json() {
        let report = Report::new(vec![
            Check::new("runtime", Status::Ok, "OpenVINO 1").detail("of a place"),
            Check::new("ports", Status::Warn, "something else listens on port 9000")
                .hint("choose another port with --port, or stop what listens"),
            Check::new("shell", Status::Note, "\u{1b}[2J"),
        ]);
        assert_eq!(report.status, Status::Warn);
        assert_eq!(report.count(Status::Warn), 1);
        insta::assert_snapshot!(report.text(Look::Plain, None), @r"
        ok    runtime     OpenVINO 1; of a place
        warn  ports       something else listens on port 9000
                          hint: choose another port with --port, or stop what listens
        note  shell       \u{1b}[2J
        ");
        insta::assert_snapshot!(report.text(Look::Plain, Some(50)), @r"
        ok    runtime     OpenVINO 1; of a place
        warn  ports       something else listens on port
                          9000
                          hint: choose another port with
                          --port, or stop what listens
        note  shell       \u{1b}[2J
        ");
        let drawn = report.text(Look::Boxed, None).replace('\u{1b}', "ESC");
        assert!(drawn.contains("ESC[33mwarn  ESC[0mports"), "{drawn}");
        insta::assert_snapshot!(report.json(), @r#"{"ovms":"0.1.0","status":"warn","checks":[{"name":"runtime","status":"ok","text":"OpenVINO 1","details":["of a place"],"hint":null},{"name":"ports","status":"warn","text":"something else listens on port 9000","details":[],"hint":"choose another port with --port, or stop what listens"},{"name":"shell","status":"note","text":"\u001b[2J","details":[],"hint":null}]}"#);
    }
}
