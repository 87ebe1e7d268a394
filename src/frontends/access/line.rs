//! A record as a line.

use std::{
    fmt::Write as _,
    net::SocketAddr,
    time::{Duration, SystemTime},
};

use axum::http::Method;
use serde::Serialize;

use super::Protocol;
use crate::config::LogFormat;

/// The longest path or name in a line, in bytes.
pub(super) const LONGEST: usize = 1024;

/// Facts about a finished request.
#[derive(Debug, Clone)]
pub(super) struct Record {
    pub(super) time: SystemTime,
    pub(super) peer: SocketAddr,
    pub(super) protocol: Protocol,
    pub(super) method: Method,
    pub(super) path: String,
    pub(super) servable: Option<String>,
    pub(super) version: Option<i64>,
    /// The HTTP status or the gRPC code; `None` if the client was gone before there was one.
    pub(super) status: Option<u16>,
    /// Bytes of the request's body as sent.
    pub(super) received: u64,
    /// Bytes of the answer's body.
    pub(super) sent: u64,
    pub(super) took: Duration,
}

/// A line as JSON.
#[derive(Serialize)]
struct Json<'a> {
    timestamp: String,
    peer: SocketAddr,
    protocol: &'static str,
    method: &'a str,
    path: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<i64>,
    status: u16,
    bytes_in: u64,
    bytes_out: u64,
    duration_us: u128,
}

impl Record {
    /// Writes the line with its end.
    pub(super) fn line(&self, format: LogFormat) -> String {
        let timestamp = prost_types::Timestamp::from(self.time).to_string();
        let protocol = match self.protocol {
            Protocol::Grpc => "gRPC",
            Protocol::Http => "HTTP",
        };
        // The client went away: what HTTP servers write for it, and gRPC's CANCELLED.
        let status = self.status.unwrap_or(match self.protocol {
            Protocol::Http => 499,
            Protocol::Grpc => 1,
        });
        let (model, version) = (self.servable.as_deref(), self.version);
        let mut line = match format {
            LogFormat::Json => serde_json::to_string(&Json {
                timestamp,
                peer: self.peer,
                protocol,
                method: self.method.as_str(),
                path: &self.path,
                model,
                version,
                status,
                bytes_in: self.received,
                bytes_out: self.sent,
                duration_us: self.took.as_micros(),
            })
            .unwrap_or_default(),
            LogFormat::Text => {
                let mut line = format!(
                    "{timestamp} {} {protocol} {} {} status={status}",
                    self.peer, self.method, self.path
                );
                if let Some(model) = model {
                    let _ = write!(line, " model={}", quoted(model));
                }
                if let Some(version) = version {
                    let _ = write!(line, " version={version}");
                }
                let _ = write!(
                    line,
                    " bytes_in={} bytes_out={} duration_us={}",
                    self.received,
                    self.sent,
                    self.took.as_micros()
                );
                line
            }
        };
        line.push('\n');
        line
    }
}

/// Puts a name in quotes that would otherwise look like more than one word, or end the line.
fn quoted(name: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "-_./:+@".contains(c);
    if !name.is_empty() && name.chars().all(plain) {
        name.to_owned()
    } else {
        format!("{name:?}")
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use axum::http::Method;

    use super::{Protocol, Record};
    use crate::config::LogFormat;

    fn record() -> Record {
        Record {
            time: SystemTime::UNIX_EPOCH + Duration::from_micros(1_700_000_000_123_456),
            peer: "127.0.0.1:50000".parse().unwrap(),
            protocol: Protocol::Http,
            method: Method::POST,
            path: "/v2/models/m/infer".to_owned(),
            servable: Some("m".to_owned()),
            version: Some(3),
            status: Some(200),
            received: 12,
            sent: 34,
            took: Duration::from_micros(567),
        }
    }

    #[test]
    fn a_line_says_all_that_is_known() {
        let mut lines = record().line(LogFormat::Text);
        lines.push_str(&record().line(LogFormat::Json));
        let unknown = Record {
            protocol: Protocol::Grpc,
            servable: None,
            version: None,
            status: None,
            ..record()
        };
        lines.push_str(&unknown.line(LogFormat::Text));
        lines.push_str(&unknown.line(LogFormat::Json));
        insta::assert_snapshot!(lines, @r#"
        2023-11-14T22:13:20.123456Z 127.0.0.1:50000 HTTP POST /v2/models/m/infer status=200 model=m version=3 bytes_in=12 bytes_out=34 duration_us=567
        {"timestamp":"2023-11-14T22:13:20.123456Z","peer":"127.0.0.1:50000","protocol":"HTTP","method":"POST","path":"/v2/models/m/infer","model":"m","version":3,"status":200,"bytes_in":12,"bytes_out":34,"duration_us":567}
        2023-11-14T22:13:20.123456Z 127.0.0.1:50000 gRPC POST /v2/models/m/infer status=1 bytes_in=12 bytes_out=34 duration_us=567
        {"timestamp":"2023-11-14T22:13:20.123456Z","peer":"127.0.0.1:50000","protocol":"gRPC","method":"POST","path":"/v2/models/m/infer","status":1,"bytes_in":12,"bytes_out":34,"duration_us":567}
        "#);
    }

    #[test]
    fn a_name_cannot_look_like_another_line() {
        let forged = Record {
            servable: Some("m\n2026 \"x\"".to_owned()),
            ..record()
        };
        let text = forged.line(LogFormat::Text);
        assert_eq!(text.lines().count(), 1);
        assert!(text.contains(r#" model="m\n2026 \"x\"" "#), "{text}");
        assert_eq!(forged.line(LogFormat::Json).lines().count(), 1);
    }
}
