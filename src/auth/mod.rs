//! Identities and their rights: of the file of `--auth`, and which one has sent a credential.
//!
//! The file ([`AuthRules`]) has identities with the SHA-256 of their API keys, the names of their certificates,
//! and the claims of their tokens; [`Auth`] follows it and finds the [`Identity`] of a credential. What each
//! request needs, and that it is asked, is up to `frontends/guard`.

mod denials;
mod file;
mod follow;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzz;
mod identity;
mod key;
mod keyset;
mod token;
mod unserved;
mod verifier;

pub use denials::{Denial, DenialCounts};
pub use file::{AuthFileError, AuthRules, AuthTerms};
pub use follow::{Auth, Credential, CredentialRefusal, Identified};
pub use identity::{Identity, IdentityNameError, Right, Rights, check_name};
pub use key::{ApiKey, KeyDigest, RandomError};
pub use keyset::KeySetError;
pub use token::TokenRefusal;
pub use unserved::ServableNames;
