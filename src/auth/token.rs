//! Tokens (JWT, RFC 7519) of the issuers that the file names.

use std::{collections::BTreeMap, sync::Arc, time::SystemTime};

use arc_swap::ArcSwap;
use jsonwebtoken::{Validation, dangerous::insecure_decode_claims, decode, decode_header};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::{
    identity::NamePatterns,
    keyset::{IssuerKey, KeySetSource},
};

/// The longest token that is looked at, in bytes.
pub(super) const MAX_TOKEN: usize = 16 << 10;

/// Maximum number of keys that a signature is tried with, where a token does not name its own.
const MAX_TRIED: usize = 8;

/// Seconds that the clocks of an issuer and of this machine may differ.
const LEEWAY: u64 = 30;

/// Issuer of tokens, with its keys as far as they are known.
#[derive(Debug)]
pub(super) struct Issuer {
    pub(super) name: String,
    pub(super) audience: String,
    pub(super) source: KeySetSource,
    pub(super) keys: ArcSwap<Vec<IssuerKey>>,
}

/// A token that is not accepted; the text is for its sender and for the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TokenRefusal {
    /// Text that cannot be read as a token.
    #[error("the token is not a readable JWT")]
    Malformed,
    /// Issuer that is none of those in the file.
    #[error("the token is of another issuer")]
    Issuer,
    /// No key of the issuer with its name; it may be a new one.
    #[error("the key of the token's signature is not known")]
    Key,
    /// No signature by any of the keys.
    #[error("the signature of the token is wrong")]
    Signature,
    /// Time that is over.
    #[error("the token has expired")]
    Expired,
    /// Time that has not begun.
    #[error("the token is not valid yet")]
    Early,
    /// Token for another server.
    #[error("the token is for another audience")]
    Audience,
    /// Too few claims.
    #[error("the token lacks a claim: iss, aud, and exp are needed")]
    Claims,
    /// No identity with such tokens.
    #[error("the token is of none of the identities")]
    Unknown,
}

/// Claims of a token that is verified.
#[derive(Debug)]
pub(super) struct VerifiedClaims {
    claims: Map<String, Value>,
    pub(super) expires: SystemTime,
}

impl VerifiedClaims {
    pub(super) fn subject(&self) -> Option<&str> {
        self.claims.get("sub")?.as_str()
    }
}

/// Finds the issuer that a token names, whose keys have to verify that.
///
/// # Errors
///
/// Fails if it is none of these.
pub(super) fn issuer_of<'a>(
    token: &str,
    issuers: &'a [Arc<Issuer>],
) -> Result<&'a Arc<Issuer>, TokenRefusal> {
    #[derive(Deserialize)]
    struct Claimed {
        iss: String,
    }
    if token.len() > MAX_TOKEN {
        return Err(TokenRefusal::Malformed);
    }
    let claimed: Claimed = insecure_decode_claims(token).map_err(|_| TokenRefusal::Malformed)?;
    let mut issuers = issuers.iter();
    let issuer = issuers.find(|issuer| issuer.name == claimed.iss);
    issuer.ok_or(TokenRefusal::Issuer)
}

impl Issuer {
    /// Verifies a token.
    ///
    /// # Errors
    ///
    /// Fails if its signature is of no key of the issuer, or its claims do not hold here and now.
    pub(super) fn verify(&self, token: &str) -> Result<VerifiedClaims, TokenRefusal> {
        let header = decode_header(token).map_err(|_| TokenRefusal::Malformed)?;
        // What must be understood is not (RFC 7515, 4.1.11).
        if header.crit.is_some() {
            return Err(TokenRefusal::Malformed);
        }
        let mut validation = Validation::new(header.alg);
        validation.leeway = LEEWAY;
        validation.validate_nbf = true;
        validation.set_audience(&[&self.audience]);
        validation.set_issuer(&[&self.name]);
        validation.set_required_spec_claims(&["exp", "iss", "aud"]);
        let keys = self.keys.load();
        let fits = |key: &&IssuerKey| {
            let is_named = header.kid.is_none() || key.id == header.kid;
            is_named && key.algorithms.contains(&header.alg)
        };
        let mut refusal = TokenRefusal::Key;
        for key in keys.iter().filter(fits).take(MAX_TRIED) {
            match decode::<Map<String, Value>>(token, &key.key, &validation) {
                Ok(decoded) => return verified(decoded.claims),
                Err(error) => refusal = refused(&error),
            }
            if refusal != TokenRefusal::Signature {
                break;
            }
        }
        Err(refusal)
    }
}

fn verified(claims: Map<String, Value>) -> Result<VerifiedClaims, TokenRefusal> {
    let seconds = claims.get("exp").and_then(|exp| {
        let float = || exp.as_f64().filter(|it| *it >= 0.0).map(|it| it as u64);
        exp.as_u64().or_else(float)
    });
    let seconds = seconds.ok_or(TokenRefusal::Claims)?.saturating_add(LEEWAY);
    let after = std::time::Duration::from_secs(seconds);
    let expires = SystemTime::UNIX_EPOCH.checked_add(after);
    let expires = expires.ok_or(TokenRefusal::Claims)?;
    Ok(VerifiedClaims { claims, expires })
}

fn refused(error: &jsonwebtoken::errors::Error) -> TokenRefusal {
    use jsonwebtoken::errors::ErrorKind;
    match error.kind() {
        ErrorKind::ExpiredSignature => TokenRefusal::Expired,
        ErrorKind::ImmatureSignature => TokenRefusal::Early,
        ErrorKind::InvalidAudience => TokenRefusal::Audience,
        ErrorKind::InvalidIssuer => TokenRefusal::Issuer,
        ErrorKind::MissingRequiredClaim(_) => TokenRefusal::Claims,
        ErrorKind::InvalidSignature => TokenRefusal::Signature,
        _ => TokenRefusal::Malformed,
    }
}

/// Tokens that an identity is known by.
#[derive(Debug, Clone)]
pub(super) struct TokenPattern {
    /// Issuer, by its name.
    pub(super) issuer: String,
    /// Patterns of the subject; any, or none, if `None`.
    pub(super) subject: Option<NamePatterns>,
    /// Claims with their texts.
    pub(super) claims: BTreeMap<String, String>,
}

impl TokenPattern {
    /// Returns whether the claims of a token of an issuer are these.
    pub(super) fn fits(&self, issuer: &str, token: &VerifiedClaims) -> bool {
        let subject = match &self.subject {
            Some(patterns) => token.subject().is_some_and(|it| patterns.matches(it)),
            None => true,
        };
        let mut claims = self.claims.iter();
        self.issuer == issuer
            && subject
            && claims
                .all(|(name, text)| token.claims.get(name).is_some_and(|it| has(name, it, text)))
    }
}

/// Returns whether a claim is a text, or has it: in a list, or among the words of a scope (RFC 8693, 4.2).
fn has(name: &str, claim: &Value, text: &str) -> bool {
    match claim {
        Value::String(words) if matches!(name, "scope" | "scp") => {
            words == text || words.split(' ').any(|word| word == text)
        }
        Value::String(whole) => whole == text,
        Value::Array(items) => items.iter().any(|item| item.as_str() == Some(text)),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use std::{
        collections::BTreeMap,
        sync::Arc,
        time::{Duration, SystemTime},
    };

    use arc_swap::ArcSwap;
    use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
    use jsonwebtoken::{Algorithm, DecodingKey};
    use ring::{
        rand::SystemRandom,
        signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _},
    };
    use serde_json::{Value, json};

    use super::{Issuer, TokenPattern, TokenRefusal, has, issuer_of};
    use crate::auth::{
        keyset::{IssuerKey, KeySetSource},
        verifier,
    };

    const ISSUER: &str = "https://id.example";

    /// Keys of an issuer.
    struct Signer {
        ec: EcdsaKeyPair,
        ed: Ed25519KeyPair,
    }

    impl Signer {
        fn new() -> Self {
            verifier::install();
            let random = SystemRandom::new();
            let algorithm = &ECDSA_P256_SHA256_FIXED_SIGNING;
            let ec = EcdsaKeyPair::generate_pkcs8(algorithm, &random).unwrap();
            let ed = Ed25519KeyPair::generate_pkcs8(&random).unwrap();
            Self {
                ec: EcdsaKeyPair::from_pkcs8(algorithm, ec.as_ref(), &random).unwrap(),
                ed: Ed25519KeyPair::from_pkcs8(ed.as_ref()).unwrap(),
            }
        }

        fn issuer(&self) -> Issuer {
            let ec = DecodingKey::from_ec_der(self.ec.public_key().as_ref());
            let ed = DecodingKey::from_ed_der(self.ed.public_key().as_ref());
            let key = |id: &str, algorithm, key| IssuerKey {
                id: Some(id.to_owned()),
                algorithms: vec![algorithm],
                key,
            };
            let keys = vec![
                key("ec", Algorithm::ES256, ec),
                key("ed", Algorithm::EdDSA, ed),
            ];
            Issuer {
                name: ISSUER.to_owned(),
                audience: "ovms".to_owned(),
                source: KeySetSource::File("keys.json".into()),
                keys: ArcSwap::from_pointee(keys),
            }
        }

        fn sign(&self, header: &Value, claims: &Value) -> String {
            let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
            let message = format!("{}.{}", part(header), part(claims));
            let signature = match header["alg"].as_str() {
                Some("ES256") => {
                    let random = SystemRandom::new();
                    let signed = self.ec.sign(&random, message.as_bytes()).unwrap();
                    signed.as_ref().to_vec()
                }
                _ => self.ed.sign(message.as_bytes()).as_ref().to_vec(),
            };
            format!("{message}.{}", URL_SAFE_NO_PAD.encode(signature))
        }
    }

    fn seconds(from_now: i64) -> i64 {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        i64::try_from(now.unwrap().as_secs()).unwrap() + from_now
    }

    fn claims() -> Value {
        json!({"iss": ISSUER, "aud": ["x", "ovms"], "sub": "alice", "exp": seconds(600)})
    }

    fn with(name: &str, value: Value) -> Value {
        let mut claims = claims();
        claims[name] = value;
        claims
    }

    #[test]
    fn only_a_token_for_here_and_now_is_accepted() {
        let signer = Signer::new();
        let issuer = signer.issuer();
        for header in [
            json!({"alg": "ES256", "kid": "ec"}),
            json!({"alg": "EdDSA", "kid": "ed"}),
            json!({"alg": "EdDSA"}),
        ] {
            let verified = issuer.verify(&signer.sign(&header, &claims())).unwrap();
            assert_eq!(verified.subject(), Some("alice"));
            let left = verified.expires.duration_since(SystemTime::now()).unwrap();
            assert!(left > Duration::from_secs(600) && left < Duration::from_secs(660));
        }
        let ec = json!({"alg": "ES256", "kid": "ec"});
        let refused = |header: &Value, claims: &Value| {
            issuer.verify(&signer.sign(header, claims)).unwrap_err()
        };
        let mut without = claims();
        without.as_object_mut().unwrap().remove("exp");
        for (claims, refusal) in [
            (with("exp", json!(seconds(-60))), TokenRefusal::Expired),
            (with("nbf", json!(seconds(600))), TokenRefusal::Early),
            (with("aud", json!("other")), TokenRefusal::Audience),
            (with("iss", json!("https://x")), TokenRefusal::Issuer),
            (without, TokenRefusal::Claims),
        ] {
            assert_eq!(refused(&ec, &claims), refusal, "{claims}");
        }
        for (header, refusal) in [
            (json!({"alg": "ES256", "kid": "x"}), TokenRefusal::Key),
            // The key of one algorithm for another.
            (json!({"alg": "EdDSA", "kid": "ec"}), TokenRefusal::Key),
            (json!({"alg": "HS256", "kid": "ec"}), TokenRefusal::Key),
            (json!({"alg": "none"}), TokenRefusal::Malformed),
            (
                json!({"alg": "ES256", "kid": "ec", "crit": ["exp"]}),
                TokenRefusal::Malformed,
            ),
        ] {
            assert_eq!(refused(&header, &claims()), refusal, "{header}");
        }
    }

    #[test]
    fn a_changed_token_is_refused() {
        let signer = Signer::new();
        let issuer = signer.issuer();
        let header = json!({"alg": "ES256", "kid": "ec"});
        let token = signer.sign(&header, &claims());
        let (message, signature) = token.rsplit_once('.').unwrap();
        let forged = with("sub", json!("root")).to_string();
        let (head, _) = message.split_once('.').unwrap();
        let forged = format!("{head}.{}.{signature}", URL_SAFE_NO_PAD.encode(forged));
        assert_eq!(issuer.verify(&forged).unwrap_err(), TokenRefusal::Signature);
        let other = Signer::new().sign(&header, &claims());
        assert_eq!(issuer.verify(&other).unwrap_err(), TokenRefusal::Signature);
        for broken in [
            message.to_owned(),
            format!("{message}."),
            "a.b.c".to_owned(),
            "..".to_owned(),
        ] {
            assert!(issuer.verify(&broken).is_err(), "{broken}");
        }
        let issuers = [Arc::new(issuer)];
        assert!(issuer_of(&token, &issuers).is_ok());
        let long = format!("{token}{}", "A".repeat(super::MAX_TOKEN));
        assert_eq!(
            issuer_of(&long, &issuers).err(),
            Some(TokenRefusal::Malformed)
        );
        let other = signer.sign(&header, &with("iss", json!("x")));
        assert_eq!(
            issuer_of(&other, &issuers).err(),
            Some(TokenRefusal::Issuer)
        );
    }

    #[test]
    fn claims_are_texts_scopes_or_lists() {
        for claim in [json!("ml"), json!(["a", "ml"])] {
            assert!(has("groups", &claim, "ml"), "{claim}");
        }
        for claim in [json!("mlx"), json!(["a ml"]), json!({"ml": 1}), Value::Null] {
            assert!(!has("scope", &claim, "ml"), "{claim}");
        }
        let words = json!("a ml b");
        assert!(has("scope", &words, "ml") && has("scp", &words, "ml"));
        assert!(
            !has("name", &words, "ml"),
            "only a scope is a list of words"
        );
        let signer = Signer::new();
        let token = signer.sign(&json!({"alg": "EdDSA"}), &with("groups", json!(["ml"])));
        let verified = signer.issuer().verify(&token).unwrap();
        let pattern = |issuer: &str, group: &str| TokenPattern {
            issuer: issuer.to_owned(),
            subject: None,
            claims: BTreeMap::from([("groups".to_owned(), group.to_owned())]),
        };
        assert!(pattern(ISSUER, "ml").fits(ISSUER, &verified));
        assert!(!pattern(ISSUER, "x").fits(ISSUER, &verified));
        assert!(!pattern("other", "ml").fits(ISSUER, &verified));
    }
}
