//! The file of `--auth`: TOML, read whole, with every error at its place.

#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzz;

use std::{
    borrow::Cow,
    collections::{BTreeMap, HashMap, HashSet},
    fs::File,
    io::{self, Read as _},
    ops::Range,
    path::{Path, PathBuf},
    sync::Arc,
};

use arc_swap::ArcSwap;
use globset::Glob;
use serde::Deserialize;
use toml::Spanned;

use super::{
    identity::{Identity, IdentityTerms, NamePatterns, Rights},
    key::{ApiKey, KeyDigest},
    keyset::KeySetSource,
    token::{Issuer, TokenPattern},
};
use crate::{
    diagnostic::{Diagnostic, FilePosition, LineIndex, Severity},
    error::{chain, nearest},
    quota::ClientLimits,
    request::{Priority, PriorityBounds},
};

/// The largest file that is read, in bytes.
const MAX_FILE: u64 = 1 << 20;

/// The longest name of an identity, in bytes.
const MAX_NAME: usize = 128;

/// Failed attempts of an address in a minute, unless the file says another number.
const USUAL_FAILURES: u32 = 60;

/// Settings of the server that the file has to go with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AuthTerms {
    /// Whether certificates of clients are verified.
    pub has_client_ca: bool,
}

/// A file of `--auth` that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum AuthFileError {
    /// The system does not give it.
    #[error("cannot read --auth {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Error from the operating system.
        source: io::Error,
    },
    /// It is larger than any should be.
    #[error("cannot use --auth {}: it has more than {MAX_FILE} bytes", .0.display())]
    Size(PathBuf),
    /// It is not as such a file has to be. Values of the file are not in the texts.
    #[error("cannot use --auth {}: {}", path.display(), listed(errors))]
    Contents {
        /// The file.
        path: PathBuf,
        /// All errors, in the order of the file; never empty.
        errors: Vec<Diagnostic>,
    },
}

fn listed(errors: &[Diagnostic]) -> String {
    let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
    texts.join("; ")
}

/// Identities, their credentials, and their rights.
#[derive(Debug, Default)]
pub struct AuthRules {
    /// Whether health is open to anyone.
    pub(super) open_health: bool,
    /// Failed attempts of an address in a minute; 0 for any number.
    pub(super) max_failures: u32,
    pub(super) issuers: Vec<Arc<Issuer>>,
    identities: Vec<Arc<Identity>>,
    /// Digests of keys, with the places of their identities; so are those that follow.
    keys: Vec<(KeyDigest, usize)>,
    certificates: HashMap<String, usize>,
    tokens: Vec<(TokenPattern, usize)>,
    /// Patterns of servables, for [`AuthRules::unserved`].
    patterns: Vec<(Glob, Diagnostic)>,
    warnings: Vec<Diagnostic>,
}

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
    /// That of `infer` if it is not there.
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

impl AuthRules {
    /// Reads the file, and the key sets that are files; blocks meanwhile.
    ///
    /// # Errors
    ///
    /// Fails if one cannot be read, or what is in it cannot be used.
    pub fn read(path: &Path, terms: AuthTerms) -> Result<Self, AuthFileError> {
        let failed = |source| AuthFileError::Read {
            path: path.to_owned(),
            source,
        };
        let mut text = String::new();
        let file = File::open(path).map_err(failed)?;
        let read = file.take(MAX_FILE + 1).read_to_string(&mut text);
        read.map_err(failed)?;
        if text.len() as u64 > MAX_FILE {
            return Err(AuthFileError::Size(path.to_owned()));
        }
        Self::parse(&text, path, terms)
    }

    /// Parses the text of the file.
    fn parse(text: &str, path: &Path, terms: AuthTerms) -> Result<Self, AuthFileError> {
        let mut reading = Reading {
            text,
            path,
            lines: LineIndex::new(text),
            errors: Vec::new(),
            rules: Self::default(),
        };
        match toml::from_str::<FileTable>(text) {
            Ok(file) => reading.file(file, terms),
            Err(error) => {
                let message = without_values(error.message());
                reading.error(error.span().unwrap_or_default(), message, None);
            }
        }
        match reading.errors.is_empty() {
            true => Ok(reading.rules),
            false => Err(AuthFileError::Contents {
                path: path.to_owned(),
                errors: reading.errors,
            }),
        }
    }

    /// Returns how many identities there are.
    pub fn count(&self) -> usize {
        self.identities.len()
    }

    /// Returns what can be used, though perhaps not as meant.
    pub fn warnings(&self) -> &[Diagnostic] {
        &self.warnings
    }

    /// Returns the key sets that are files.
    pub(super) fn key_files(&self) -> impl Iterator<Item = &Path> {
        self.issuers
            .iter()
            .filter_map(|issuer| match &issuer.source {
                KeySetSource::File(path) => Some(&**path),
                KeySetSource::Url(_) => None,
            })
    }

    /// Returns the patterns of servables that nothing of these names fits.
    pub fn unserved(&self, names: &[String]) -> Vec<Diagnostic> {
        let unserved = self.patterns.iter().filter(|(glob, _)| {
            let matcher = glob.compile_matcher();
            glob.glob() != "*" && !names.iter().any(|name| matcher.is_match(name))
        });
        unserved
            .map(|(glob, place)| {
                let near = nearest(glob.glob(), names.iter().map(String::as_str));
                let hint = near.map(|name| format!("did you mean `{name}`?"));
                place.clone().may_hint(hint)
            })
            .collect()
    }

    /// Finds the identity of a key. All are compared, so that the time does not tell which one it is.
    pub(super) fn of_key(&self, digest: &KeyDigest) -> Option<&Arc<Identity>> {
        let mut found = None;
        for (known, identity) in &self.keys {
            if known.is(digest) {
                found = Some(*identity);
            }
        }
        self.identities.get(found?)
    }

    /// Finds the identity of a certificate with these names; the first of the file counts.
    pub(super) fn of_certificate(&self, names: &[String]) -> Option<&Arc<Identity>> {
        let found = names
            .iter()
            .filter_map(|name| self.certificates.get(&*certificate_key(name)).copied());
        self.identities.get(found.min()?)
    }

    /// Finds the identity of a token that an issuer has signed; the first of the file counts.
    pub(super) fn of_token(
        &self,
        issuer: &str,
        claims: &super::token::VerifiedClaims,
    ) -> Option<&Arc<Identity>> {
        let mut tokens = self.tokens.iter();
        let found = tokens.find(|(pattern, _)| pattern.fits(issuer, claims));
        self.identities.get(found?.1)
    }
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
            let text = "found no [[identity]], so that nobody could do anything";
            self.error(0..0, text, Some(hint.to_owned()));
        }
        let limits = file.limits.and_then(|limits| self.limits(limits));
        let mut names = HashSet::new();
        for identity in file.identity {
            let span = identity.span();
            let identity = identity.into_inner();
            let name = identity.name.get_ref();
            let is_good = !name.trim().is_empty()
                && name.len() <= MAX_NAME
                && !name.contains(char::is_control);
            if !is_good {
                let text = format!(
                    "found a name that is empty, longer than {MAX_NAME} bytes, or not of one line"
                );
                self.error(identity.name.span(), text, None);
            } else if !names.insert(name.clone()) {
                let text = format!("found the name `{name}` twice");
                let hint = "give all keys, certificates, and tokens of an identity in one table";
                self.error(identity.name.span(), text, Some(hint.to_owned()));
            }
            self.identity(identity, span, (terms, limits.as_ref()));
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
                let text = "found a key set that is fetched in the clear or is no URL";
                self.error(jwks.span(), text, Some(hint.to_owned()));
            }
            KeySetSource::Url(text.clone())
        } else {
            let folder = self.path.parent().unwrap_or(Path::new(""));
            let path = folder.join(text);
            match KeySetSource::read(&path) {
                Ok(read) => keys = read,
                Err(error) => self.error(jwks.span(), chain(&error), None),
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
        let infer = self.patterns(&table.infer);
        let metadata = match &table.metadata {
            Some(patterns) => self.patterns(patterns),
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
                    "found a key that is no SHA-256",
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

    /// Compiles patterns of servables, and keeps them for the look at what is served.
    fn patterns(&mut self, patterns: &[Spanned<String>]) -> NamePatterns {
        let mut globs = Vec::new();
        for pattern in patterns {
            let Some(glob) = self.glob(pattern) else {
                continue;
            };
            let text = format!("nothing that is served fits `{}`", pattern.get_ref());
            let place = self.finding(Severity::Warning, pattern.span(), text);
            self.rules.patterns.push((glob.clone(), place));
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
    let is_local = matches!(url.host_str(), Some("localhost" | "127.0.0.1" | "[::1]"));
    url.scheme() == "https" || (url.scheme() == "http" && is_local)
}

/// Returns a name of a certificate as it is compared: host names have no case, and URIs do.
fn certificate_key(name: &str) -> Cow<'_, str> {
    match name.contains("://") {
        true => Cow::Borrowed(name),
        false => Cow::Owned(name.to_ascii_lowercase()),
    }
}

#[cfg(test)]
mod tests;
