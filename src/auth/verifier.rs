//! Signatures of tokens, verified by ring.
//!
//! The crate of tokens takes any cryptography; ring is here for TLS anyway. Of its own two choices one needs a
//! second library in C, and the other a crate for RSA with an open advisory.

use jsonwebtoken::{
    Algorithm, DecodingKey, DecodingKeyKind,
    crypto::{CryptoProvider, JwtVerifier, KeyUtils},
    errors::{ErrorKind, Result, new_error},
    signature::{self, Verifier},
};
use ring::signature::{
    self as ring_signature, RsaParameters, RsaPublicKeyComponents, UnparsedPublicKey,
    VerificationAlgorithm,
};

static PROVIDER: CryptoProvider = CryptoProvider {
    signer_factory: |_, _| Err(new_error(ErrorKind::UnsupportedAlgorithm)),
    verifier_factory: verifier,
    // These are for making keys, which nobody does here.
    key_utils: KeyUtils::new_unimplemented(),
};

fn verifier(algorithm: &Algorithm, key: &DecodingKey) -> Result<Box<dyn JwtVerifier>> {
    let scheme = Scheme::of(*algorithm);
    let scheme = scheme.ok_or_else(|| new_error(ErrorKind::UnsupportedAlgorithm))?;
    Ok(Box::new(RingVerifier {
        algorithm: *algorithm,
        scheme,
        key: key.clone(),
    }))
}

/// Makes ring the verifier of tokens from now on.
pub(super) fn install() {
    // It may be there already.
    let _ = PROVIDER.install_default();
}

/// Kinds of signatures.
enum Scheme {
    Rsa(&'static RsaParameters),
    Point(&'static dyn VerificationAlgorithm),
}

impl Scheme {
    fn of(algorithm: Algorithm) -> Option<Self> {
        Some(match algorithm {
            Algorithm::RS256 => Self::Rsa(&ring_signature::RSA_PKCS1_2048_8192_SHA256),
            Algorithm::RS384 => Self::Rsa(&ring_signature::RSA_PKCS1_2048_8192_SHA384),
            Algorithm::RS512 => Self::Rsa(&ring_signature::RSA_PKCS1_2048_8192_SHA512),
            Algorithm::PS256 => Self::Rsa(&ring_signature::RSA_PSS_2048_8192_SHA256),
            Algorithm::PS384 => Self::Rsa(&ring_signature::RSA_PSS_2048_8192_SHA384),
            Algorithm::PS512 => Self::Rsa(&ring_signature::RSA_PSS_2048_8192_SHA512),
            Algorithm::ES256 => Self::Point(&ring_signature::ECDSA_P256_SHA256_FIXED),
            Algorithm::ES384 => Self::Point(&ring_signature::ECDSA_P384_SHA384_FIXED),
            Algorithm::EdDSA => Self::Point(&ring_signature::ED25519),
            // A secret that both ends share is no key set that anybody may read.
            _ => return None,
        })
    }
}

struct RingVerifier {
    algorithm: Algorithm,
    scheme: Scheme,
    key: DecodingKey,
}

impl Verifier<Vec<u8>> for RingVerifier {
    fn verify(
        &self,
        message: &[u8],
        signature: &Vec<u8>,
    ) -> std::result::Result<(), signature::Error> {
        let verified = match (&self.scheme, self.key.kind()) {
            (Scheme::Rsa(parameters), DecodingKeyKind::RsaModulusExponent { n, e }) => {
                let key = RsaPublicKeyComponents {
                    n: without_zeros(n),
                    e: without_zeros(e),
                };
                key.verify(parameters, message, signature)
            }
            (Scheme::Point(algorithm), DecodingKeyKind::SecretOrDer(point)) => {
                UnparsedPublicKey::new(*algorithm, point).verify(message, signature)
            }
            _ => return Err(signature::Error::new()),
        };
        verified.map_err(|_| signature::Error::new())
    }
}

impl JwtVerifier for RingVerifier {
    fn algorithm(&self) -> Algorithm {
        self.algorithm
    }
}

/// Leaves out the zeros that some write before a number.
fn without_zeros(number: &[u8]) -> &[u8] {
    let zeros = number.iter().take_while(|byte| **byte == 0).count();
    &number[zeros..]
}
