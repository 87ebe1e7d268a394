//! Answers of something that is no model server, such as a web server or a database at the address.

use std::fmt;

use crate::text::first_chars;

/// Maximum number of bytes of an answer that are read to identify it.
pub(super) const MAX_READ: usize = 64 << 10;

/// Maximum numbers of the first bytes of another protocol that are read, and that are shown.
pub(super) const MAX_FIRST: usize = 256;
const MAX_SHOWN: usize = 60;

/// Maximum length of a page's title as shown, in characters.
const MAX_TITLE: usize = 80;

/// Contents of an answer that is none of a model server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ForeignAnswer {
    /// A page of HTML, with its title.
    Page(String),
    /// JSON.
    Json,
    /// Anything else over HTTP.
    Other,
    /// First bytes of another protocol than HTTP.
    Bytes(Vec<u8>),
}

impl ForeignAnswer {
    /// Returns what the first bytes of a connection are, which was asked over HTTP.
    pub(super) fn of_stream(bytes: &[u8]) -> Self {
        // The first frame of a server of HTTP/2 has its settings.
        let is_settings = bytes.len() >= 9 && bytes[3..9] == [4, 0, 0, 0, 0, 0];
        match bytes.starts_with(b"HTTP/") || is_settings {
            true => Self::Other,
            false => Self::Bytes(bytes.to_vec()),
        }
    }

    /// Returns what a body is.
    pub(super) fn of(body: &[u8]) -> Self {
        if let Some(title) = page_title(body) {
            return Self::Page(title);
        }
        let json = serde_json::from_slice::<serde::de::IgnoredAny>(body);
        match json {
            Ok(_) => Self::Json,
            Err(_) => Self::Other,
        }
    }
}

impl fmt::Display for ForeignAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Page(title) if title.is_empty() => f.write_str("a web page"),
            Self::Page(title) => write!(f, "the web page `{title}`"),
            Self::Json => f.write_str("JSON of another service"),
            Self::Other => f.write_str("HTTP of another service"),
            Self::Bytes(bytes) => {
                let line = bytes.split(|byte| matches!(byte, b'\r' | b'\n')).next();
                let line = line.unwrap_or_default();
                let shown = &line[..line.len().min(MAX_SHOWN)];
                let cut = if shown.len() < line.len() { "…" } else { "" };
                write!(f, "`{}{cut}`", shown.escape_ascii())
            }
        }
    }
}

/// Returns the title of a page of HTML, which may be empty; `None` of any other body.
pub(super) fn page_title(body: &[u8]) -> Option<String> {
    let body = body.trim_ascii_start();
    if !body.starts_with(b"<") {
        return None;
    }
    let body = String::from_utf8_lossy(&body[..body.len().min(MAX_READ)]);
    let lower = body.to_ascii_lowercase();
    if !lower.starts_with("<!doctype html") && !lower.starts_with("<html") {
        return None;
    }
    // Only ASCII has changed, so that the places are the same.
    let title = lower.find("<title").and_then(|start| {
        let begin = start + lower[start..].find('>')? + 1;
        let end = begin + lower[begin..].find("</title")?;
        Some(body[begin..end].split_whitespace().collect::<Vec<_>>())
    });
    let title = title.unwrap_or_default().join(" ");
    Some(first_chars(&title, MAX_TITLE).to_owned())
}

#[cfg(test)]
mod tests {
    use super::{ForeignAnswer, page_title};

    #[test]
    fn pages_are_recognized_by_their_beginning_and_have_titles() {
        for (body, title) in [
            (
                &b"\n<!DOCTYPE html>\n<html><head><Title lang=en>\n Welcome to\n nginx! </title>"[..],
                Some("Welcome to nginx!"),
            ),
            (b"<html><body>no title</body></html>", Some("")),
            (b"<html><title>cut", Some("")),
            (b"{\"title\":\"<html>\"}", None),
            (b"", None),
            (b"\xff<html>", None),
        ] {
            assert_eq!(page_title(body).as_deref(), title);
        }
        let long = format!("<html><title>{}</title>", "é".repeat(200));
        assert_eq!(page_title(long.as_bytes()), Some("é".repeat(80)));
        assert_eq!(
            ForeignAnswer::of(b"[1]").to_string(),
            "JSON of another service"
        );
        assert_eq!(
            ForeignAnswer::of(b"hello").to_string(),
            "HTTP of another service"
        );
    }

    #[test]
    fn another_protocol_is_recognized_by_its_first_bytes() {
        let long = [b'x'; 100];
        let cut = format!("`{}…`", "x".repeat(60));
        for (bytes, expected) in [
            (&b"SSH-2.0-OpenSSH_9.2\r\nmore"[..], "`SSH-2.0-OpenSSH_9.2`"),
            (b"J\0\0\0\n8.0.36", "`J\\x00\\x00\\x00`"),
            (&long, &cut),
            (b"HTTP/1.0 400 Bad Request\r\n", "HTTP of another service"),
            (b"\0\0\x06\x04\0\0\0\0\0\0\x05", "HTTP of another service"),
        ] {
            assert_eq!(ForeignAnswer::of_stream(bytes).to_string(), expected);
        }
    }
}
