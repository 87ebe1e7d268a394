//! Keys of shared memory objects, and which of them clients may register.

use std::{fmt, str::FromStr};

use crate::error::{Error, ErrorKind, Result};

/// Maximum length of a key without its slash, in bytes (NAME_MAX of Linux).
const MAX_KEY: usize = 255;

/// Beginning that keys must have, with the leading slash; a slash alone allows any key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyPrefix(String);

/// Text that is the beginning of no key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "shared_memory has invalid format: expected the beginning of the keys that clients may register, such \
     as /ovms_, or / for any key; found {0:?}"
)]
pub struct KeyPrefixError(String);

impl FromStr for KeyPrefix {
    type Err = KeyPrefixError;

    fn from_str(text: &str) -> Result<Self, KeyPrefixError> {
        let bare = text.strip_prefix('/').unwrap_or(text);
        // Folders below /dev/shm are no keys, and `..` would lead out of it.
        let is_key = !bare.contains(['/', '\0']) && bare.len() <= MAX_KEY;
        match is_key && !text.is_empty() {
            true => Ok(Self(format!("/{bare}"))),
            false => Err(KeyPrefixError(text.to_owned())),
        }
    }
}

impl fmt::Display for KeyPrefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl KeyPrefix {
    /// Returns the name of the file that a key stands for: the key without its leading slash, which may be
    /// missing, as with shm_open(3).
    ///
    /// # Errors
    ///
    /// Fails if the key is none, or has another beginning.
    pub(super) fn file_name<'a>(&self, region: &str, key: &'a str) -> Result<&'a str> {
        let failed = format!("failed to register shared memory region '{region}'");
        let bare = key.strip_prefix('/').unwrap_or(key);
        let is_name = !bare.contains(['/', '\0']) && (1..=MAX_KEY).contains(&bare.len());
        if !is_name || [".", ".."].contains(&bare) {
            return Err(Error::invalid(format!(
                "{failed}: invalid args - the key is one name of 1 to {MAX_KEY} bytes, with no slash but a \
                 leading one; found {key:?}"
            )));
        }
        match bare.starts_with(&self.0[1..]) {
            true => Ok(bare),
            false => Err(Error::new(
                ErrorKind::Forbidden,
                format!(
                    "{failed}: keys have to begin with '{self}', see --shared-memory; found {key:?}"
                ),
            )),
        }
    }
}
