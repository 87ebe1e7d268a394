//! API keys and their digests.

use std::fmt;

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use ring::{
    digest::{SHA256, digest},
    rand::{SecureRandom as _, SystemRandom},
};
use subtle::ConstantTimeEq as _;

/// Bytes of randomness of a key.
const RANDOM: usize = 32;

/// API key: 256 random bits as text.
pub struct ApiKey(String);

/// SHA-256 of an API key, or of another credential.
#[derive(Clone, Copy)]
pub struct KeyDigest([u8; 32]);

/// The system gives no random numbers.
#[derive(Debug, thiserror::Error)]
#[error("the system gives no random numbers")]
pub struct RandomError;

impl ApiKey {
    /// Beginning of each key, by which people and scanners of secrets know one.
    pub const PREFIX: &'static str = "ovms_";

    /// Makes a new key.
    ///
    /// # Errors
    ///
    /// Fails if the system gives no random numbers.
    pub fn generate() -> Result<Self, RandomError> {
        let mut bytes = [0; RANDOM];
        let random = SystemRandom::new();
        random.fill(&mut bytes).map_err(|_| RandomError)?;
        let text = URL_SAFE_NO_PAD.encode(bytes);
        Ok(Self(format!("{}{text}", Self::PREFIX)))
    }

    /// Returns the key itself, which is a secret.
    pub fn text(&self) -> &str {
        &self.0
    }

    /// Returns its digest.
    pub fn digest(&self) -> KeyDigest {
        KeyDigest::of(self.0.as_bytes())
    }
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ApiKey(***)")
    }
}

impl KeyDigest {
    /// Beginning of a digest in the file.
    const PREFIX: &'static str = "sha256:";

    /// Computes the digest of a credential.
    pub fn of(credential: &[u8]) -> Self {
        let mut bytes = [0; 32];
        bytes.copy_from_slice(digest(&SHA256, credential).as_ref());
        Self(bytes)
    }

    /// Reads a digest: 64 hexadecimal digits, with or without `sha256:` before them.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let text = text.strip_prefix(Self::PREFIX).unwrap_or(text);
        let digits = text.as_bytes();
        if digits.len() != 64 {
            return None;
        }
        let mut bytes = [0; 32];
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            let digit = |digit: u8| char::from(digit).to_digit(16);
            let value = digit(pair[0])? * 16 + digit(pair[1])?;
            *byte = u8::try_from(value).ok()?;
        }
        Some(Self(bytes))
    }

    /// Returns whether two digests are the same, in a time that does not tell where they differ.
    pub fn is(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl fmt::Display for KeyDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Self::PREFIX)?;
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for KeyDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::{ApiKey, KeyDigest};

    #[test]
    fn keys_have_256_random_bits_and_are_not_shown() {
        let (one, other) = (ApiKey::generate().unwrap(), ApiKey::generate().unwrap());
        assert_ne!(one.text(), other.text());
        assert_eq!(one.text().len(), ApiKey::PREFIX.len() + 43);
        assert!(!format!("{one:?}").contains(one.text()));
        assert!(one.digest().is(&KeyDigest::of(one.text().as_bytes())));
        assert!(!one.digest().is(&other.digest()));
    }

    #[test]
    fn digests_are_those_of_other_tools() {
        // As `printf abc | sha256sum` writes it.
        let digest = KeyDigest::of(b"abc").to_string();
        insta::assert_snapshot!(digest, @"sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        for text in [&*digest, &digest[7..], &digest.to_uppercase()[7..]] {
            assert!(
                KeyDigest::parse(text).unwrap().is(&KeyDigest::of(b"abc")),
                "{text}"
            );
        }
        for wrong in [
            "",
            "sha256:",
            &digest[..70],
            &format!("{digest}0"),
            &"g".repeat(64),
            &"ü".repeat(32),
        ] {
            assert!(KeyDigest::parse(wrong).is_none(), "{wrong}");
        }
    }
}
