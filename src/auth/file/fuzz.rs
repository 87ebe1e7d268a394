//! Fuzz target of the file of identities.

use std::path::Path;

use super::{AuthFileError, AuthRules, AuthTerms};

/// A file of identities: errors are of its contents, and there is one at least. Key sets that are files are not there.
pub(crate) fn identities(data: &[u8]) {
    let terms = AuthTerms {
        has_client_ca: true,
        plain_port: Some("REST"),
    };
    match AuthRules::parse(data, Path::new("/nowhere/auth.toml"), terms) {
        Ok(rules) => assert!(rules.count() <= data.len()),
        Err(AuthFileError::Contents { errors, .. }) => assert!(!errors.is_empty()),
        Err(error) => panic!("{error}"),
    }
}
