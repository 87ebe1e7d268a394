//! Reading of the file: its tables, and what is wrong with them.

use std::{
    collections::{BTreeMap, HashSet},
    ops::Range,
    path::Path,
    sync::Arc,
};

use arc_swap::ArcSwap;
use globset::Glob;
use serde::Deserialize;
use toml::Spanned;

use super::{AuthRules, AuthTerms, certificate_key};
use crate::{
    auth::{
        identity::{Identity, IdentityTerms, NamePatterns, Rights, check_name},
        key::{ApiKey, KeyDigest},
        keyset::{KeySetError, KeySetSource},
        token::{Issuer, TokenPattern},
    },
    diagnostic::{Diagnostic, FilePosition, LineIndex, Severity},
    error::{chain, nearest},
    https,
    quota::{ClientLimits, Priority, PriorityBounds},
};

/// Failed attempts of an address in a minute, unless the file says another number.
const USUAL_FAILURES: u32 = 60;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileTable {
    #[serde(default = "open")]
    open_health: bool,
    #[serde(default = "usual_failures")]
    max_failures_per_minute: u32,
    /// Limits of each identity that has none of its own.
    limits: Option<Spanned<ClientLimits>>,
    #[serde(default)]
    jwt: Vec<IssuerTable>,
    #[serde(default)]
    identity: Vec<Spanned<IdentityTable>>,
}

const fn open() -> bool {
    true
}

const fn usual_failures() -> u32 {
    USUAL_FAILURES
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct IssuerTable {
    issuer: Spanned<String>,
    audience: Spanned<String>,
    jwks: Spanned<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct IdentityTable {
    name: Spanned<String>,
    #[serde(default)]
    keys: Vec<Spanned<String>>,
    #[serde(default)]
    certificates: Vec<Spanned<String>>,
    #[serde(default)]
    tokens: Vec<Spanned<TokenTable>>,
    #[serde(default)]
    infer: Vec<Spanned<String>>,
    /// Patterns of servables whose metadata it may read; those of `infer` if absent.
    metadata: Option<Vec<Spanned<String>>>,
    #[serde(default)]
    metrics: bool,
    #[serde(default)]
    admin: bool,
    #[serde(default)]
    dashboard: bool,
    limits: Option<Spanned<ClientLimits>>,
    #[serde(default)]
    limits_per_subject: bool,
    /// Priority of requests that do not say any, and the highest one that they may have.
    priority: Option<Spanned<u64>>,
    best_priority: Option<Spanned<u64>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TokenTable {
    issuer: Option<Spanned<String>>,
    subject: Option<Spanned<String>>,
    #[serde(default)]
    claims: BTreeMap<String, String>,
}

/// Reads the text of a file.
///
/// # Errors
///
/// Fails with all that is wrong, in the order of the file.
pub(super) fn read(
    bytes: &[u8],
    path: &Path,
    terms: AuthTerms,
) -> Result<AuthRules, Vec<Diagnostic>> {
    // What is text before the first byte that is none has the lines.
    let first = bytes.utf8_chunks().next();
    let text = first.as_ref().map_or("", |chunk| chunk.valid());
    let mut reading = Reading {
        text,
        path,
        lines: LineIndex::new(text),
        errors: Vec::new(),
        rules: AuthRules::default(),
    };
    if let Some(wrong) = bytes.get(text.len()) {
        let text = format!("found the byte 0x{wrong:02X}, expected text in UTF-8");
        let hint = "save the file as UTF-8; names that are not ASCII may be in another encoding";
        let place = reading.text.len();
        reading.error(place..place, text, Some(hint.to_owned()));
        return Err(reading.errors);
    }
    match toml::from_str::<FileTable>(text) {
        Ok(file) => reading.file(file, terms),
        Err(error) => {
            let span = error.span().unwrap_or_default();
            let is_key = is_key_alone(text, span.start);
            let message = match is_key {
                true => "found an API key itself".to_owned(),
                false => without_values(error.message()),
            };
            let hint = match is_key {
                true => Some(FIRST_LINE.to_owned()),
                false => near_key(error.message()),
            };
            reading.error(span, message, hint);
        }
    }
    match reading.errors.is_empty() {
        true => Ok(reading.rules),
        false => Err(reading.errors),
    }
}

/// Next step where the file has the whole output of `ovms key new`.
const FIRST_LINE: &str = "the first line that `ovms key new` prints is the key, which is for the client alone: remove it here, and keep the \
    lines from [[identity]] on";

/// Returns whether a line has nothing but an API key.
fn is_key_alone(text: &str, at: usize) -> bool {
    let at = at.min(text.len());
    let (Some(before), Some(rest)) = (text.get(..at), text.get(at..)) else {
        return false;
    };
    let start = before.rfind('\n').map_or(0, |end| end + 1);
    let end = rest.find('\n').map_or(text.len(), |end| at + end);
    let line = text[start..end].trim();
    line.starts_with(ApiKey::PREFIX) && !line.contains(['=', ' '])
}

/// Finds the key that is meant by one that is not known, in the text of the error.
fn near_key(message: &str) -> Option<String> {
    let (typed, rest) = message.strip_prefix("unknown field `")?.split_once('`')?;
    let known = rest.split('`').skip(1).step_by(2);
    let near = nearest(typed, known)?;
    Some(format!("did you mean `{near}`?"))
}

/// Leaves values of the file out of the text of an error: one may be a key that stands where it should not.
fn without_values(message: &str) -> String {
    if message.contains(ApiKey::PREFIX) {
        return "found an API key where none is expected".to_owned();
    }
    let message = match (message.find("string \""), message.rfind("\", expected")) {
        (Some(start), Some(end)) => format!("{}a text{}", &message[..start], &message[end + 1..]),
        _ => message.replace('\n', "; "),
    };
    // Names of the language that this is written in.
    [
        ("expected f64", "expected a number"),
        ("expected u32", "expected a whole number"),
        ("expected a sequence", "expected a list"),
    ]
    .into_iter()
    .fold(message, |message, (of_rust, word)| {
        message.replace(of_rust, word)
    })
}

/// A file that is being read.
struct Reading<'a> {
    text: &'a str,
    path: &'a Path,
    lines: LineIndex,
    errors: Vec<Diagnostic>,
    rules: AuthRules,
}

impl Reading<'_> {
    fn finding(
        &self,
        severity: Severity,
        span: Range<usize>,
        message: impl Into<String>,
    ) -> Diagnostic {
        let start = span.start.min(self.text.len());
        let place = FilePosition {
            width: 1,
            ..self.lines.position(self.text, (start, span.end))
        };
        Diagnostic::new(severity, message.into())
            .file(&self.path.display().to_string())
            .at(place)
    }

    fn error(&mut self, span: Range<usize>, message: impl Into<String>, hint: Option<String>) {
        let found = self.finding(Severity::Error, span, message);
        self.errors.push(found.may_hint(hint));
    }

    fn file(&mut self, file: FileTable, terms: AuthTerms) {
        self.rules.open_health = file.open_health;
        self.rules.max_failures = file.max_failures_per_minute;
        for issuer in file.jwt {
            self.issuer(issuer);
        }
        if file.identity.is_empty() {
            let hint = "`ovms key new` makes a key, with the lines for this file";
            let text = "found no [[identity]], so nobody could do anything";
            self.error(0..0, text, Some(hint.to_owned()));
        }
        let limits = file.limits.and_then(|limits| self.limits(limits));
        let mut names = HashSet::new();
        let mut needs_certificates = !file.identity.is_empty();
        for identity in file.identity {
            let span = identity.span();
            let identity = identity.into_inner();
            needs_certificates &= identity.keys.is_empty() && identity.tokens.is_empty();
            let name = identity.name.get_ref();
            if let Err(error) = check_name(name) {
                self.error(identity.name.span(), error.to_string(), None);
            } else if !names.insert(name.clone()) {
                let text = format!("found the name `{name}` twice");
                let hint = "give all keys, certificates, and tokens of an identity in one table";
                self.error(identity.name.span(), text, Some(hint.to_owned()));
            }
            self.identity(identity, span, (terms, limits.as_ref()));
        }
        if let Some(port) = terms.plain_port.filter(|_| needs_certificates) {
            let text = format!(
                "all identities have only certificates, but the {port} port has no TLS: it would recognize none of them"
            );
            let flag = port.to_lowercase();
            let hint =
                format!("give --{flag}-tls as well, or keys to the identities that use this port");
            let file = self.path.display().to_string();
            let found = Diagnostic::new(Severity::Warning, text).file(&file);
            self.rules.warnings.push(found.hint(hint));
        }
    }

    fn issuer(&mut self, table: IssuerTable) {
        let IssuerTable {
            issuer,
            audience,
            jwks,
        } = table;
        let name = issuer.get_ref();
        if name.is_empty() {
            self.error(issuer.span(), "found an empty issuer", None);
        }
        if self.rules.issuers.iter().any(|known| known.name == *name) {
            self.error(
                issuer.span(),
                format!("found the issuer `{name}` twice"),
                None,
            );
        }
        if audience.get_ref().is_empty() {
            let hint = "name this server as its tokens do, such as \"ovms\"";
            self.error(
                audience.span(),
                "found an empty audience",
                Some(hint.to_owned()),
            );
        }
        let text = jwks.get_ref();
        let mut keys = Vec::new();
        let source = if text.contains("://") {
            if !is_url(text) {
                let hint = "give https://HOST/PATH, or http:// of this machine, or a file";
                let text = "found a key set that is fetched in the clear or is not a URL";
                self.error(jwks.span(), text, Some(hint.to_owned()));
            }
            KeySetSource::Url(text.clone())
        } else {
            let folder = self.path.parent().unwrap_or(Path::new(""));
            let path = folder.join(text);
            match KeySetSource::read(&path) {
                Ok(read) => keys = read,
                Err(error) => {
                    let text = match &error {
                        KeySetError::Read { .. } => chain(&error),
                        _ => format!(
                            "cannot use the key set {}: {}",
                            path.display(),
                            chain(&error)
                        ),
                    };
                    self.error(jwks.span(), text, Some(error.hint()));
                }
            }
            KeySetSource::File(path)
        };
        self.rules.issuers.push(Arc::new(Issuer {
            name: issuer.into_inner(),
            audience: audience.into_inner(),
            source,
            keys: ArcSwap::from_pointee(keys),
        }));
    }

    fn identity(
        &mut self,
        table: IdentityTable,
        span: Range<usize>,
        (terms, limits): (AuthTerms, Option<&Arc<ClientLimits>>),
    ) {
        let place = self.rules.identities.len();
        let name: Arc<str> = table.name.get_ref().as_str().into();
        if table.keys.is_empty() && table.certificates.is_empty() && table.tokens.is_empty() {
            let text = format!("identity `{name}` has no keys, certificates, or tokens");
            let hint = "`ovms key new` makes a key, with the line for it";
            self.error(span.clone(), text, Some(hint.to_owned()));
        }
        for key in &table.keys {
            self.key(key, place);
        }
        for certificate in &table.certificates {
            self.certificate(certificate, place, terms);
        }
        for token in table.tokens {
            self.token(token, place);
        }
        let infer = self.patterns(&name, &table.infer);
        let metadata = match &table.metadata {
            Some(patterns) => self.patterns(&name, patterns),
            None => infer.clone(),
        };
        let rights = Rights {
            infer,
            metadata,
            metrics: table.metrics,
            admin: table.admin,
            dashboard: table.dashboard,
        };
        if rights.is_empty() {
            let text = format!("identity `{name}` has no rights");
            let found = self.finding(Severity::Warning, span, text);
            let hint = "give it some of infer, metadata, metrics, admin, and dashboard";
            self.rules.warnings.push(found.hint(hint));
        }
        let priorities = self.priorities(table.priority.as_ref(), table.best_priority.as_ref());
        let terms = IdentityTerms {
            limits: match table.limits {
                Some(own) => self.limits(own),
                None => limits.cloned(),
            },
            per_subject: table.limits_per_subject,
            priorities,
        };
        let identity = Identity::new(name, Arc::new(rights), terms);
        self.rules.identities.push(Arc::new(identity));
    }

    /// Reads limits; a table of none stands for none.
    fn limits(&mut self, limits: Spanned<ClientLimits>) -> Option<Arc<ClientLimits>> {
        if let Err(error) = limits.get_ref().check() {
            self.error(limits.span(), error.to_string(), None);
        }
        let limits = limits.into_inner();
        (!limits.is_empty()).then(|| Arc::new(limits))
    }

    fn priorities(
        &mut self,
        usual: Option<&Spanned<u64>>,
        best: Option<&Spanned<u64>>,
    ) -> PriorityBounds {
        let known = u64::from(Priority::FIRST.number())..=u64::from(Priority::LAST.number());
        let mut read = |given: Option<&Spanned<u64>>, default: Priority| {
            let Some(given) = given else { return default };
            if !known.contains(given.get_ref()) {
                let text = format!(
                    "expected a priority from {} to {}, of which {} is the first",
                    known.start(),
                    known.end(),
                    known.start()
                );
                self.error(given.span(), text, None);
            }
            Priority::new(*given.get_ref())
        };
        let usual_one = read(usual, Priority::USUAL);
        // Nobody gets ahead of the others unless the file says so.
        let best_one = read(best, usual_one);
        if let Some(best) = best.filter(|_| best_one > usual_one) {
            let text = format!(
                "best_priority is behind priority, which is {}: nothing could have it",
                usual_one.number()
            );
            self.error(best.span(), text, None);
        }
        PriorityBounds {
            best: best_one,
            usual: usual_one,
        }
    }

    fn key(&mut self, key: &Spanned<String>, place: usize) {
        let text = key.get_ref();
        let Some(digest) = KeyDigest::parse(text) else {
            // The key itself is not repeated.
            let (what, hint) = match text.starts_with(ApiKey::PREFIX) {
                true => (
                    "found an API key itself",
                    format!(
                        "write its digest, \"{}\", and make a new key if others have read this file",
                        KeyDigest::of(text.as_bytes())
                    ),
                ),
                false => (
                    "found a key that is not a SHA-256 digest",
                    "expected sha256: and 64 hexadecimal digits, as `ovms key new` prints them"
                        .to_owned(),
                ),
            };
            return self.error(key.span(), what, Some(hint));
        };
        if self.rules.keys.iter().any(|(known, _)| known.is(&digest)) {
            return self.error(key.span(), "found a key twice", None);
        }
        self.rules.keys.push((digest, place));
    }

    fn certificate(&mut self, name: &Spanned<String>, place: usize, terms: AuthTerms) {
        if !terms.has_client_ca {
            let text = "found certificates, and the server does not verify any";
            let hint = "give --tls-client-ca, with --tls-client-auth required, or optional if there are other clients";
            return self.error(name.span(), text, Some(hint.to_owned()));
        }
        let key = certificate_key(name.get_ref()).into_owned();
        if key.is_empty() {
            return self.error(name.span(), "found an empty name of a certificate", None);
        }
        if self.rules.certificates.insert(key, place).is_some() {
            let text = format!("found the certificate `{}` twice", name.get_ref());
            self.error(name.span(), text, None);
        }
    }

    fn token(&mut self, token: Spanned<TokenTable>, place: usize) {
        let span = token.span();
        let TokenTable {
            issuer,
            subject,
            claims,
        } = token.into_inner();
        let names = self.rules.issuers.iter().map(|known| known.name.clone());
        let names: Vec<String> = names.collect();
        let issuer = match (issuer, &names[..]) {
            (_, []) => {
                let hint = "add [[jwt]] with issuer, audience, and jwks";
                let text = "found tokens, and no [[jwt]] that says whose";
                return self.error(span, text, Some(hint.to_owned()));
            }
            (None, [only]) => only.clone(),
            (None, _) => {
                let hint = format!("one of {}", names.join(", "));
                let text = "found a token without its issuer, of which there are several";
                return self.error(span, text, Some(hint));
            }
            (Some(issuer), _) if names.contains(issuer.get_ref()) => issuer.into_inner(),
            (Some(issuer), _) => {
                let near = nearest(issuer.get_ref(), names.iter().map(String::as_str));
                let hint = match near {
                    Some(name) => format!("did you mean `{name}`?"),
                    None => format!("expected one of {}", names.join(", ")),
                };
                let text = format!(
                    "found the issuer `{}` that no [[jwt]] has",
                    issuer.get_ref()
                );
                return self.error(issuer.span(), text, Some(hint));
            }
        };
        if subject.is_none() && claims.is_empty() {
            let hint = "subject = \"*\" takes each token of the issuer that has any";
            let text = "found a token without subject and claims";
            return self.error(span, text, Some(hint.to_owned()));
        }
        let subject = subject.map(|subject| {
            let glob = self.glob(&subject);
            self.compile(glob.as_slice(), subject.span())
        });
        let pattern = TokenPattern {
            issuer,
            subject,
            claims,
        };
        self.rules.tokens.push((pattern, place));
    }

    /// Compiles patterns of an identity, and keeps them for the look at what is served.
    fn patterns(&mut self, identity: &Arc<str>, patterns: &[Spanned<String>]) -> NamePatterns {
        let mut globs = Vec::new();
        for pattern in patterns {
            let Some(glob) = self.glob(pattern) else {
                continue;
            };
            let text = format!("nothing that is served fits `{}`", pattern.get_ref());
            let place = self.finding(Severity::Warning, pattern.span(), text);
            let identity = Arc::clone(identity);
            self.rules.patterns.push((identity, glob.clone(), place));
            globs.push(glob);
        }
        let span = patterns.first().map_or(0..0, Spanned::span);
        self.compile(&globs, span)
    }

    fn glob(&mut self, pattern: &Spanned<String>) -> Option<Glob> {
        match Glob::new(pattern.get_ref()) {
            Ok(glob) => Some(glob),
            Err(error) => {
                let text = format!("found a pattern that cannot be read: {}", error.kind());
                let hint =
                    "* stands for any characters, ? for one, [ab] and {x,y} for one of these";
                self.error(pattern.span(), text, Some(hint.to_owned()));
                None
            }
        }
    }

    fn compile(&mut self, globs: &[Glob], span: Range<usize>) -> NamePatterns {
        NamePatterns::new(globs.iter().cloned()).unwrap_or_else(|error| {
            self.error(
                span,
                format!("found patterns that are too large: {}", error.kind()),
                None,
            );
            NamePatterns::default()
        })
    }
}

/// Returns whether a URL is one that nobody between can change what comes of.
fn is_url(text: &str) -> bool {
    let Ok(url) = reqwest::Url::parse(text) else {
        return false;
    };
    let is_local = https::is_of_this_machine(&url);
    url.scheme() == "https" || (url.scheme() == "http" && is_local)
}
