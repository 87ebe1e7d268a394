//! Fuzz target of tokens and key sets.

use std::sync::Arc;

use arc_swap::ArcSwap;

pub(crate) use super::file::fuzz::identities;
use super::{
    keyset::{KeySetSource, parse},
    token::{Issuer, TokenRefusal, issuer_of},
    verifier,
};

/// A token, and behind a line break the key set of its issuer: what is accepted is of that issuer.
pub(crate) fn tokens(data: &[u8]) {
    verifier::install();
    let end = data.iter().position(|byte| *byte == b'\n');
    let (token, set) = data.split_at(end.unwrap_or(data.len()));
    let Ok(token) = std::str::from_utf8(token) else {
        return;
    };
    let issuer = Arc::new(Issuer {
        name: "i".to_owned(),
        audience: "a".to_owned(),
        source: KeySetSource::Url(String::new()),
        keys: ArcSwap::from_pointee(parse(set).unwrap_or_default()),
    });
    let verified = issuer.verify(token);
    match issuer_of(token, &[Arc::clone(&issuer)]) {
        Ok(found) => assert_eq!(found.name, issuer.name),
        Err(refusal) => {
            assert!(matches!(
                refusal,
                TokenRefusal::Malformed | TokenRefusal::Issuer
            ));
            assert!(verified.is_err(), "{token} is of nobody");
        }
    }
}
