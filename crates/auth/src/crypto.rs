//! What verifies signatures: `ring`, which TLS stands on already.
//!
//! The crate that reads tokens takes its cryptography from a provider of the process; ours knows
//! signatures by public keys only. There is no HMAC, so a public key can never be taken for a
//! secret.

use jsonwebtoken::crypto::{CryptoProvider, JwtVerifier, KeyUtils};
use jsonwebtoken::errors::{ErrorKind, Result, new_error};
use jsonwebtoken::signature::{Error, Verifier};
use jsonwebtoken::{Algorithm, DecodingKey, DecodingKeyKind};
use ring::signature::{self, RsaParameters, RsaPublicKeyComponents, UnparsedPublicKey};

/// Lets tokens be verified by `ring`, unless the program chose something else before.
pub(crate) fn install() {
    let _ = PROVIDER.install_default();
}

static PROVIDER: CryptoProvider = CryptoProvider {
    signer_factory: |_, _| Err(new_error(ErrorKind::UnsupportedAlgorithm)),
    verifier_factory: |algorithm, key| {
        let scheme = scheme(*algorithm)?;
        if key.family() != algorithm.family() {
            return Err(new_error(ErrorKind::InvalidKeyFormat));
        }
        Ok(Box::new(RingVerifier { algorithm: *algorithm, scheme, key: key.clone() }))
    },
    key_utils: KeyUtils::new_unimplemented(),
};

enum Scheme {
    Rsa(&'static RsaParameters),
    Curve(&'static dyn signature::VerificationAlgorithm),
}

fn scheme(algorithm: Algorithm) -> Result<Scheme> {
    Ok(match algorithm {
        Algorithm::RS256 => Scheme::Rsa(&signature::RSA_PKCS1_2048_8192_SHA256),
        Algorithm::RS384 => Scheme::Rsa(&signature::RSA_PKCS1_2048_8192_SHA384),
        Algorithm::RS512 => Scheme::Rsa(&signature::RSA_PKCS1_2048_8192_SHA512),
        Algorithm::PS256 => Scheme::Rsa(&signature::RSA_PSS_2048_8192_SHA256),
        Algorithm::PS384 => Scheme::Rsa(&signature::RSA_PSS_2048_8192_SHA384),
        Algorithm::PS512 => Scheme::Rsa(&signature::RSA_PSS_2048_8192_SHA512),
        Algorithm::ES256 => Scheme::Curve(&signature::ECDSA_P256_SHA256_FIXED),
        Algorithm::ES384 => Scheme::Curve(&signature::ECDSA_P384_SHA384_FIXED),
        Algorithm::EdDSA => Scheme::Curve(&signature::ED25519),
        _ => return Err(new_error(ErrorKind::UnsupportedAlgorithm)),
    })
}

struct RingVerifier {
    algorithm: Algorithm,
    scheme: Scheme,
    key: DecodingKey,
}

impl Verifier<Vec<u8>> for RingVerifier {
    fn verify(&self, message: &[u8], signature: &Vec<u8>) -> std::result::Result<(), Error> {
        let verified = match (&self.scheme, self.key.kind()) {
            (Scheme::Rsa(scheme), DecodingKeyKind::RsaModulusExponent { n, e }) => {
                RsaPublicKeyComponents { n, e }.verify(scheme, message, signature)
            }
            (Scheme::Rsa(scheme), DecodingKeyKind::SecretOrDer(key)) => {
                UnparsedPublicKey::new(*scheme, key).verify(message, signature)
            }
            (Scheme::Curve(scheme), DecodingKeyKind::SecretOrDer(key)) => {
                UnparsedPublicKey::new(*scheme, key).verify(message, signature)
            }
            (Scheme::Curve(_), DecodingKeyKind::RsaModulusExponent { .. }) => {
                Err(ring::error::Unspecified)
            }
        };
        verified.map_err(|_| Error::new())
    }
}

impl JwtVerifier for RingVerifier {
    fn algorithm(&self) -> Algorithm {
        self.algorithm
    }
}
