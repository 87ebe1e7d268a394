//! A file of identities: whether a server would take it.

use std::path::Path;

use ovms::{
    auth::{AuthRules, AuthTerms},
    error::chain,
};

use super::{Check, Status};

/// Reads a file as a server with certificates of clients would. Key sets of URLs are not fetched.
pub(super) fn check(path: &Path) -> Check {
    let terms = AuthTerms {
        has_client_ca: true,
        plain_port: None,
    };
    match AuthRules::read(path, terms) {
        Ok(rules) => {
            let text = match rules.count() {
                1 => format!("{} has 1 identity", path.display()),
                count => format!("{} has {count} identities", path.display()),
            };
            let status = match rules.warnings() {
                [] => Status::Ok,
                _ => Status::Warn,
            };
            let warnings = rules.warnings().iter().map(ToString::to_string);
            warnings.fold(Check::new("identities", status, text), Check::detail)
        }
        Err(error) => Check::new("identities", Status::Warn, chain(&error)),
    }
}
