//! Idempotency keys of steps before the last.

use ring::digest::{SHA256, digest};

use crate::store::StoredAnswer;

/// Maximum number of keys that are known.
const MAX_KEYS: usize = 32;

/// Bytes of the hash of a key. The hash is the same in every build, since servers of several share a store.
const HASH: usize = 8;

/// The keys of the last steps of a sequence, as hashes. A request that was held up on its way, while its client sent it again elsewhere and
/// went on, is known by it, and not run a second time.
#[derive(Debug, Default)]
pub(super) struct RecentKeys(Vec<u8>);

impl RecentKeys {
    /// Returns the keys that a record has, and that of its answer: records of older versions have that alone.
    pub(super) fn of_record(stored: &[u8], answer: Option<&StoredAnswer>) -> Self {
        let mut keys = Self(stored.to_vec());
        if let Some(answer) = answer
            && !keys.contains(&answer.key)
        {
            keys.add(&answer.key);
        }
        keys
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    pub(super) fn contains(&self, key: &str) -> bool {
        let hash = hash(key);
        self.0.chunks_exact(HASH).any(|known| known == hash)
    }

    pub(super) fn add(&mut self, key: &str) {
        if self.0.len() >= MAX_KEYS * HASH {
            self.0.drain(..HASH);
        }
        self.0.extend_from_slice(&hash(key));
    }
}

fn hash(key: &str) -> [u8; HASH] {
    let hash = digest(&SHA256, key.as_bytes());
    std::array::from_fn(|place| hash.as_ref()[place])
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    #[test]
    fn the_last_keys_are_known() {
        let mut keys = RecentKeys::default();
        for number in 0..=MAX_KEYS {
            keys.add(&number.to_string());
        }
        let again = RecentKeys::of_record(keys.as_bytes(), None);
        assert_eq!(again.as_bytes().len(), MAX_KEYS * HASH);
        assert!(!again.contains("0"));
        assert!((1..=MAX_KEYS).all(|number| again.contains(&number.to_string())));
    }

    #[test]
    fn the_key_of_the_answer_is_known_once() {
        let answer = StoredAnswer {
            key: "last".to_owned(),
            outputs: Bytes::new(),
        };
        let of_answer = RecentKeys::of_record(&[], Some(&answer));
        assert!(of_answer.contains("last"));
        let again = RecentKeys::of_record(of_answer.as_bytes(), Some(&answer));
        assert_eq!(again.as_bytes(), of_answer.as_bytes());
    }
}
