//! Texts of the TLS library without the names of its types.

use std::borrow::Cow;

/// Beginnings of texts before a name, and how they are said.
const BEGINNINGS: [(&str, &str); 7] = [
    ("invalid peer certificate: ", "invalid peer certificate: "),
    ("InvalidCertificate(", "invalid peer certificate: "),
    ("received fatal alert: ", "received fatal alert: "),
    ("peer is incompatible: ", "peer is incompatible: "),
    ("peer misbehaved: ", "peer misbehaved: "),
    (
        "received corrupt message of type ",
        "received corrupt message: ",
    ),
    (
        "keys may not be consistent: ",
        "keys may not be consistent: ",
    ),
];

/// End of the names of errors that have a twin without contents.
const WITH_CONTENTS: &str = "Context";

/// Names that make no sentence by themselves.
const SENTENCES: [(&str, &str); 3] = [
    (
        "UnsupportedSignatureAlgorithm",
        "it is signed with an algorithm that is not supported",
    ),
    (
        "UnsupportedSignatureAlgorithmForPublicKey",
        "it is signed with another algorithm than that of its CA's key",
    ),
    (
        "CaUsedAsEndEntity",
        "a CA certificate is used as a server certificate",
    ),
];

/// Kinds of names that a certificate is for, as the library writes them: `DnsName("localhost")`.
const KINDS: [&str; 2] = ["DnsName(", "IpAddress("];

/// Returns the text of an error with the names in it, which are those of types of the TLS library, as words.
pub fn in_words(text: &str) -> Cow<'_, str> {
    let beginnings = BEGINNINGS.iter();
    let found = beginnings.filter_map(|(begin, said)| Some((text.find(begin)?, begin, said)));
    let Some((at, begin, said)) = found.min_by_key(|(at, ..)| *at) else {
        return Cow::Borrowed(text);
    };
    let rest = &text[at + begin.len()..];
    let Some((words, rest)) = name(rest) else {
        let (before, rest) = (&text[..text.len() - rest.len()], plain_names(rest));
        return Cow::Owned(before.to_owned() + &in_words(&rest));
    };
    let rest = match begin.ends_with('(') {
        true => rest.strip_prefix(')').unwrap_or(rest),
        false => rest,
    };
    Cow::Owned([&text[..at], said, &words, &in_words(rest)].concat())
}

/// Takes a name and its contents from the beginning of a text, as words; `None` if it has none.
fn name(text: &str) -> Option<(String, &str)> {
    if !text.starts_with(|c: char| c.is_ascii_uppercase()) {
        return None;
    }
    let end = text.find(|c: char| !c.is_ascii_alphanumeric());
    let (name, rest) = text.split_at(end.unwrap_or(text.len()));
    let (contents, rest) = contents(rest);
    // One of another library, which is the innermost name.
    let inner = contents.trim_end_matches(')');
    let inner = inner.rsplit(|c: char| !c.is_ascii_alphanumeric()).next();
    let name = match (name, inner) {
        ("Other", Some(inner)) if !inner.is_empty() => inner,
        _ => name.strip_suffix(WITH_CONTENTS).unwrap_or(name),
    };
    let known = SENTENCES.iter().find(|(known, _)| *known == name);
    let words = known.map_or_else(|| words(name), |(_, sentence)| (*sentence).to_owned());
    Some((words, rest))
}

/// Splits a text behind the contents of a name: `(…)` or ` { … }`.
fn contents(text: &str) -> (&str, &str) {
    if !text.starts_with('(') && !text.starts_with(" {") {
        return ("", text);
    }
    let mut depth = 0_usize;
    for (at, c) in text.char_indices() {
        match c {
            '(' | '{' | '[' => depth += 1,
            ')' | '}' | ']' => depth = depth.saturating_sub(1),
            _ => continue,
        }
        if depth == 0 {
            return text.split_at(at + 1);
        }
    }
    (text, "")
}

/// Writes a name such as `NoCipherSuitesInCommon` as words. Short forms stay as they are.
fn words(name: &str) -> String {
    let mut words: Vec<String> = Vec::new();
    let mut before = ' ';
    let mut letters = name.chars().peekable();
    while let Some(letter) = letters.next() {
        let is_before_lower = letters.peek().is_some_and(char::is_ascii_lowercase);
        let begins =
            letter.is_ascii_uppercase() && (!before.is_ascii_uppercase() || is_before_lower);
        match words.last_mut() {
            Some(word) if !begins => word.push(letter),
            _ => words.push(letter.to_string()),
        }
        before = letter;
    }
    for word in &mut words {
        *word = match word.as_str() {
            "Tls12" => "TLS 1.2".to_owned(),
            "Tls13" => "TLS 1.3".to_owned(),
            "Or13" => "or 1.3".to_owned(),
            short if short.len() > 1 && short.chars().all(|c| c.is_ascii_uppercase()) => continue,
            word => word.to_ascii_lowercase(),
        };
    }
    words.join(" ")
}

/// Returns a text with the names that a certificate is for as URLs have them.
fn plain_names(text: &str) -> String {
    let mut text = text.to_owned();
    for kind in KINDS {
        while let Some(start) = text.find(kind) {
            let inside = start + kind.len();
            let length = text[inside..].find(')');
            let end = length.map_or(text.len(), |length| inside + length);
            let name = text[inside..end].trim_matches('"').to_owned();
            text.replace_range(start..text.len().min(end + 1), &name);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rustls::{
        AlertDescription, CertificateError, Error, OtherError, PeerIncompatible,
        pki_types::ServerName,
    };

    use super::in_words;

    fn said(error: impl Into<Error>) -> String {
        in_words(&error.into().to_string()).into_owned()
    }

    #[test]
    fn names_of_types_become_words() {
        let unsupported = CertificateError::UnsupportedSignatureAlgorithmContext {
            signature_algorithm_id: vec![42, 134],
            supported_algorithms: Vec::new(),
        };
        insta::assert_snapshot!(said(unsupported), @"invalid peer certificate: it is signed with an algorithm that is not supported");
        let other = CertificateError::UnsupportedSignatureAlgorithmForPublicKeyContext {
            signature_algorithm_id: vec![42],
            public_key_algorithm_id: vec![43],
        };
        insta::assert_snapshot!(said(other), @"invalid peer certificate: it is signed with another algorithm than that of its CA's key");
        insta::assert_snapshot!(said(CertificateError::UnknownIssuer), @"invalid peer certificate: unknown issuer");
        let authority = std::io::Error::other("x");
        let authority = CertificateError::Other(OtherError(Arc::new(authority)));
        // Of an error of another kind, its last word.
        assert!(!said(authority).contains("OtherError"));
        insta::assert_snapshot!(said(Error::AlertReceived(AlertDescription::UnknownCA)), @"received fatal alert: unknown CA");
        insta::assert_snapshot!(said(PeerIncompatible::ServerDoesNotSupportTls12Or13), @"peer is incompatible: server does not support TLS 1.2 or 1.3");
        let names = CertificateError::NotValidForNameContext {
            expected: ServerName::try_from("localhost").unwrap(),
            presented: vec![
                "DnsName(\"a.example\")".to_owned(),
                "IpAddress(10.0.0.1)".to_owned(),
            ],
        };
        insta::assert_snapshot!(said(names), @r#"invalid peer certificate: certificate not valid for name "localhost"; certificate is only valid for a.example or 10.0.0.1"#);
    }

    #[test]
    fn texts_of_others_stay_and_those_around_are_kept() {
        for (text, expected) in [
            (
                "Connection refused (os error 111)",
                "Connection refused (os error 111)",
            ),
            (
                "h2: received fatal alert: CertificateRequired, twice",
                "h2: received fatal alert: certificate required, twice",
            ),
            (
                "tls: InvalidCertificate(Other(OtherError(CaUsedAsEndEntity))): invalid peer certificate: UnknownIssuer",
                "tls: invalid peer certificate: a CA certificate is used as a server certificate: \
                 invalid peer certificate: unknown issuer",
            ),
            (
                "InvalidCertificate(NotValidForName",
                "invalid peer certificate: not valid for name",
            ),
            (
                "invalid peer certificate: Cut { a: [1, (",
                "invalid peer certificate: cut",
            ),
            ("peer misbehaved: ", "peer misbehaved: "),
            (
                "invalid peer certificate: DnsName(é",
                "invalid peer certificate: dns name",
            ),
            (
                "invalid peer certificate: is DnsName(\"é",
                "invalid peer certificate: is é",
            ),
        ] {
            assert_eq!(in_words(text), expected, "{text}");
        }
    }
}
