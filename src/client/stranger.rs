//! Answers of something that is no model server, such as a web server at the address.

use std::fmt;

/// How much of an answer is read to say what it is.
pub(super) const MAX_READ: usize = 64 << 10;

/// How much of the title of a page is shown, in characters.
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
}

impl ForeignAnswer {
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
    Some(title.chars().take(MAX_TITLE).collect())
}

#[cfg(test)]
mod tests {
    use super::{ForeignAnswer, page_title};

    #[test]
    fn pages_are_told_by_their_beginning_and_have_titles() {
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
}
