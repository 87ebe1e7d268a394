//! The file of `--auth`: TOML, read whole, with every error at its place.

#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzz;
mod reading;

use std::{
    borrow::Cow,
    collections::HashMap,
    fs::File,
    io::{self, Read as _},
    path::{Path, PathBuf},
    sync::Arc,
};

use globset::Glob;

use super::{
    identity::Identity,
    key::KeyDigest,
    keyset::KeySetSource,
    token::{Issuer, TokenPattern},
    unserved::PatternKey,
};
use crate::{diagnostic::Diagnostic, error::nearest};

/// The largest file that is read, in bytes.
const MAX_FILE: u64 = 1 << 20;

/// Maximum number of names of servables that a finding shows.
const MAX_SHOWN: usize = 5;

/// Settings of the server that the file has to go with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AuthTerms {
    /// Indicates that certificates of clients are verified.
    pub has_client_ca: bool,
    /// Port without TLS beside one that verifies certificates, such as `REST`.
    pub plain_port: Option<&'static str>,
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
    /// More bytes than any such file should have.
    #[error("cannot use --auth {}: it has more than {MAX_FILE} bytes", .0.display())]
    Size(PathBuf),
    /// Contents that are not as in such a file. Values of the file are not in the texts.
    #[error("cannot use --auth {}: {}", path.display(), listed(errors))]
    Contents {
        /// The file.
        path: PathBuf,
        /// All errors, in the order of the file; never empty.
        errors: Vec<Diagnostic>,
    },
}

impl AuthFileError {
    /// Returns the next step; errors of the contents have their own.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Read { path, source } => Some(match source.kind() {
                io::ErrorKind::PermissionDenied => {
                    format!("let the user that runs ovms read {}", path.display())
                }
                _ => "check the path; `ovms key new` prints the lines of an identity".to_owned(),
            }),
            Self::Size(_) | Self::Contents { .. } => None,
        }
    }
}

fn listed(errors: &[Diagnostic]) -> String {
    let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
    texts.join("; ")
}

/// Identities, their credentials, and their rights.
#[derive(Debug, Default)]
pub struct AuthRules {
    /// Opens health checks to anyone.
    pub(super) open_health: bool,
    /// Failed attempts of an address in a minute; 0 for any number.
    pub(super) max_failures: u32,
    pub(super) issuers: Vec<Arc<Issuer>>,
    identities: Vec<Arc<Identity>>,
    /// Digests of keys, with the places of their identities; so are those that follow.
    keys: Vec<(KeyDigest, usize)>,
    certificates: HashMap<String, usize>,
    tokens: Vec<(TokenPattern, usize)>,
    /// Patterns of servables with their identities, for [`AuthRules::unserved`].
    patterns: Vec<(Arc<str>, Glob, Diagnostic)>,
    warnings: Vec<Diagnostic>,
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
        let mut text = Vec::new();
        let file = File::open(path).map_err(failed)?;
        let read = file.take(MAX_FILE + 1).read_to_end(&mut text);
        read.map_err(failed)?;
        if text.len() as u64 > MAX_FILE {
            return Err(AuthFileError::Size(path.to_owned()));
        }
        Self::parse(&text, path, terms)
    }

    /// Parses the text of the file.
    fn parse(text: &[u8], path: &Path, terms: AuthTerms) -> Result<Self, AuthFileError> {
        reading::read(text, path, terms).map_err(|errors| AuthFileError::Contents {
            path: path.to_owned(),
            errors,
        })
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
        let unserved = self.unserved_patterns(names).into_iter();
        unserved.map(|(_, finding)| finding).collect()
    }

    /// Returns the same with the patterns themselves.
    pub(super) fn unserved_patterns(&self, names: &[String]) -> Vec<(PatternKey, Diagnostic)> {
        let unserved = self.patterns.iter().filter(|(_, glob, _)| {
            let matcher = glob.compile_matcher();
            glob.glob() != "*" && !names.iter().any(|name| matcher.is_match(name))
        });
        unserved
            .map(|(identity, glob, place)| {
                let near = nearest(glob.glob(), names.iter().map(String::as_str));
                let hint = match near {
                    Some(name) => format!("did you mean `{name}`?"),
                    None => format!(
                        "{}; it counts once a servable is added whose name fits",
                        shown(names)
                    ),
                };
                let key = (Arc::clone(identity), glob.glob().to_owned());
                (key, place.clone().hint(hint))
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

/// Writes what is served, the first few names of it.
fn shown(names: &[String]) -> String {
    let first: Vec<String> = names
        .iter()
        .take(MAX_SHOWN)
        .map(|name| format!("`{name}`"))
        .collect();
    let first = first.join(", ");
    match names.len() {
        0 => "nothing is served".to_owned(),
        count if count > MAX_SHOWN => {
            format!("served are {first}, and {} more", count - MAX_SHOWN)
        }
        1 => format!("{first} is served"),
        _ => format!("served are {first}"),
    }
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
