//! Identities and what they may do.

use std::{fmt, sync::Arc};

use globset::{Glob, GlobSet, GlobSetBuilder};

use crate::quota::{ClientKey, ClientLimits, PriorityBounds};

/// The longest name of an identity, in bytes.
const MAX_NAME: usize = 128;

/// A name that no identity can have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("found a name that is empty, longer than {MAX_NAME} bytes, or not of one line")]
pub struct IdentityNameError;

/// Checks the name of an identity, as the file of identities has it.
///
/// # Errors
///
/// Fails if it would not be accepted there.
pub fn check_name(name: &str) -> Result<(), IdentityNameError> {
    let is_good =
        !name.trim().is_empty() && name.len() <= MAX_NAME && !name.contains(char::is_control);
    is_good.then_some(()).ok_or(IdentityNameError)
}

/// Right that is not about one servable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::Display)]
#[strum(serialize_all = "lowercase")]
pub enum Right {
    /// The right to read the metrics page.
    Metrics,
    /// The right to reload, save and restore sequences, register shared memory, and control models.
    Admin,
    /// The right to use the dashboard.
    Dashboard,
}

/// Rights of an identity.
#[derive(Debug, Clone, Default)]
pub struct Rights {
    /// Servables that it may run.
    pub(super) infer: NamePatterns,
    /// Servables that it may know: inputs, outputs, states, and figures.
    pub(super) metadata: NamePatterns,
    pub(super) metrics: bool,
    pub(super) admin: bool,
    pub(super) dashboard: bool,
}

/// Patterns of names, of which one has to match.
#[derive(Debug, Clone, Default)]
pub(super) struct NamePatterns {
    /// Presence of the pattern `*`, which needs no match.
    all: bool,
    globs: GlobSet,
}

impl NamePatterns {
    /// Compiles patterns; `*` stands for any characters, `/` too.
    pub(super) fn new(globs: impl IntoIterator<Item = Glob>) -> Result<Self, globset::Error> {
        let mut all = false;
        let mut builder = GlobSetBuilder::new();
        for glob in globs {
            all |= glob.glob() == "*";
            builder.add(glob);
        }
        let globs = builder.build()?;
        Ok(Self { all, globs })
    }

    pub(super) fn matches(&self, name: &str) -> bool {
        self.all || self.globs.is_match(name)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.globs.is_empty()
    }
}

impl Rights {
    /// Returns whether it is none at all.
    pub(super) fn is_empty(&self) -> bool {
        let Self {
            infer,
            metadata,
            metrics,
            admin,
            dashboard,
        } = self;
        infer.is_empty() && metadata.is_empty() && !metrics && !admin && !dashboard
    }
}

/// Sender of a request, as the file of `--auth` names it.
#[derive(Debug, Clone)]
pub struct Identity {
    name: Arc<str>,
    /// Subject of the token that it was found by.
    subject: Option<String>,
    rights: Arc<Rights>,
    terms: IdentityTerms,
}

/// Limits of an identity.
#[derive(Debug, Clone, Default)]
pub(super) struct IdentityTerms {
    /// `None` for none.
    pub(super) limits: Option<Arc<ClientLimits>>,
    /// Applies the limits to each subject of its tokens separately.
    pub(super) per_subject: bool,
    pub(super) priorities: PriorityBounds,
}

impl Identity {
    pub(super) fn new(name: Arc<str>, rights: Arc<Rights>, terms: IdentityTerms) -> Self {
        Self {
            name,
            subject: None,
            rights,
            terms,
        }
    }

    pub(super) fn of_subject(&self, subject: Option<&str>) -> Self {
        Self {
            subject: subject.map(str::to_owned),
            ..self.clone()
        }
    }

    /// Returns its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the subject of its token, if it was found by one that has any.
    pub fn subject(&self) -> Option<&str> {
        self.subject.as_deref()
    }

    /// Returns the client that its requests count for, with the limits of that; `None` if it has none.
    pub fn client(&self) -> Option<(ClientKey, &Arc<ClientLimits>)> {
        let limits = self.terms.limits.as_ref()?;
        let subject = self.subject.as_deref().filter(|_| self.terms.per_subject);
        let key = ClientKey::Identity(Arc::clone(&self.name), subject.map(Arc::from));
        Some((key, limits))
    }

    /// Returns the priorities that its requests may have.
    pub fn priorities(&self) -> PriorityBounds {
        self.terms.priorities
    }

    /// Returns whether it has a right.
    pub fn may(&self, right: Right) -> bool {
        match right {
            Right::Metrics => self.rights.metrics,
            Right::Admin => self.rights.admin,
            Right::Dashboard => self.rights.dashboard,
        }
    }

    /// Returns whether it may run a servable.
    pub fn may_infer(&self, servable: &str) -> bool {
        self.rights.infer.matches(servable)
    }

    /// Returns whether it may know a servable: inputs, outputs, states, and figures.
    pub fn may_describe(&self, servable: &str) -> bool {
        self.rights.metadata.matches(servable)
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use globset::Glob;

    use super::{Identity, IdentityTerms, NamePatterns};

    #[test]
    fn patterns_are_of_whole_names() {
        let patterns = |globs: &[&str]| {
            NamePatterns::new(globs.iter().map(|glob| Glob::new(glob).unwrap())).unwrap()
        };
        let some = patterns(&["resnet*", "ocr", "team/*", "v[12]", "{a,b}-x"]);
        for name in ["resnet", "resnet50", "ocr", "team/a/b", "v1", "b-x"] {
            assert!(some.matches(name), "{name}");
        }
        for name in ["", "a-resnet", "ocr2", "team", "v3", "c-x", "Ocr"] {
            assert!(!some.matches(name), "{name}");
        }
        assert!(patterns(&["x", "*"]).matches("any/thing"));
        assert!(!patterns(&[]).matches("x"));
    }

    #[test]
    fn subjects_are_clients_of_their_own_where_limits_are_for_each() {
        let client = |per_subject| {
            let terms = IdentityTerms {
                limits: Some(Arc::new("streams=1".parse().unwrap())),
                per_subject,
                ..IdentityTerms::default()
            };
            let identity = Identity::new("team".into(), Arc::default(), terms);
            ["a", "b"].map(|subject| identity.of_subject(Some(subject)).client().unwrap().0)
        };
        let [one, other] = client(true);
        assert_ne!(one, other);
        assert_eq!(one.to_string(), "team (a)");
        let [one, other] = client(false);
        assert_eq!(one, other);
    }
}
