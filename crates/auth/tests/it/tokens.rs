//! Which tokens are taken, and why others are not.

use ring::hmac;
use serde_json::{Value, json};
use tidewire_service::Code;

use crate::issuer::{Checked, Published, START, Signer, base64, claims, with};

#[tokio::test]
async fn a_good_token_says_who_calls_and_what_they_may() {
    for signer in [Signer::ecdsa("a"), Signer::ed25519("a")] {
        let checked = Checked::new(&Published::of(&[signer.jwk()]));
        let ada = checked.of(&signer.sign(&claims())).await.unwrap().unwrap();
        assert_eq!((ada.issuer(), ada.subject()), ("https://id.example", "ada"));
        assert!(ada.has_scope("read") && ada.has_scope("write") && !ada.has_scope("admin"));
        assert_eq!(ada.claim("tenant"), Some(&json!("t1")));
        assert_eq!(ada.claim("exp"), None, "it speaks of the token");
    }
}

#[tokio::test]
async fn scopes_come_in_every_form_that_issuers_have() {
    let signer = Signer::ecdsa("a");
    let checked = Checked::new(&Published::of(&[signer.jwk()]));
    for (name, value) in
        [("scope", json!(["read", "own"])), ("scp", json!("own")), ("scp", json!(["own"]))]
    {
        let ada = checked.of(&signer.sign(&with(name, value.clone()))).await.unwrap().unwrap();
        assert!(ada.has_scope("own") && ada.has_scope("read"), "{name} {value}");
    }
}

#[tokio::test]
async fn a_token_whose_claims_are_wrong_is_refused() {
    let signer = Signer::ecdsa("a");
    let checked = Checked::new(&Published::of(&[signer.jwk()]));
    for (name, value, expected) in [
        ("iss", json!("https://evil.example"), "of another issuer"),
        ("iss", Value::Null, "of another issuer"),
        ("iss", json!(7), "of another issuer"),
        ("iss", json!(["https://id.example"]), "of another issuer"),
        ("aud", json!("elsewhere"), "for another audience"),
        ("aud", json!([]), "for another audience"),
        ("aud", json!({"shop": true}), "for another audience"),
        ("aud", Value::Null, "for another audience"),
        ("exp", json!(START - 31), "it expired"),
        ("exp", Value::Null, "it expired"),
        ("exp", json!("never"), "not a valid signed JWT"),
        ("exp", json!(-1), "not a valid signed JWT"),
        ("exp", json!(18_446_744_073_709_551_616.0), "not a valid signed JWT"),
        ("exp", json!(1e300), "not a valid signed JWT"),
        ("nbf", json!(START + 31), "not valid yet"),
        ("nbf", json!("soon"), "not a valid signed JWT"),
        ("sub", Value::Null, "does not say whose"),
        ("sub", json!(""), "does not say whose"),
        ("sub", json!(["ada"]), "not a valid signed JWT"),
    ] {
        let error = checked.of(&signer.sign(&with(name, value.clone()))).await.unwrap_err();
        assert_eq!(error.code(), Code::Unauthenticated, "{name} {value}: {error}");
        assert!(error.message().contains(expected), "{name} {value}: {error}");
    }
}

#[tokio::test]
async fn clocks_may_differ_by_the_leeway_and_no_more() {
    let signer = Signer::ecdsa("a");
    let checked = Checked::new(&Published::of(&[signer.jwk()]));
    for (name, time, passes) in [
        ("exp", START - 29, true),
        ("exp", START - 30, false),
        ("nbf", START + 30, true),
        ("nbf", START + 31, false),
    ] {
        let of = checked.of(&signer.sign(&with(name, json!(time)))).await;
        assert_eq!(of.is_ok(), passes, "{name} {time}");
    }
}

#[tokio::test]
async fn a_token_that_nobody_signed_is_refused() {
    let signer = Signer::ecdsa("a");
    let checked = Checked::new(&Published::of(&[signer.jwk()]));
    let good = signer.sign(&claims());
    let (text, signature) = good.rsplit_once('.').unwrap();
    let body = base64(claims().to_string());
    let none = |name: &str| base64(json!({"alg": name, "typ": "JWT"}).to_string());
    let other = Signer::ecdsa("a").sign(&claims());
    let admin = base64(with("sub", json!("admin")).to_string());
    let swapped = format!("{}.{admin}.{signature}", text.split('.').next().unwrap());
    for token in [
        format!("{}.{body}.", none("none")),
        format!("{}.{body}.", none("NONE")),
        format!("{}.{body}", none("none")),
        format!("{text}."),
        text.to_owned(),
        good[..good.len() - 1].to_owned(),
        good[..good.len() / 2].to_owned(),
        format!("{good}x"),
        format!("{good}.x"),
        format!(" {good}"),
        other,
        swapped,
        String::new(),
        ".".to_owned(),
        "..".to_owned(),
        "a.b.c".to_owned(),
    ] {
        let error = checked.of(&token).await.unwrap_err();
        assert_eq!(error.code(), Code::Unauthenticated, "{token}: {error}");
        assert!(token.len() < 5 || !error.message().contains(&token), "{error}");
    }
    assert!(checked.of(&good).await.is_ok(), "the one that was signed");
}

#[tokio::test]
async fn a_public_key_is_not_taken_for_a_secret() {
    let signer = Signer::ecdsa("a");
    let modulus = base64([0xc5; 256]);
    let rsa = json!({"kty": "RSA", "n": modulus, "e": "AQAB", "kid": "rsa"});
    let secret = json!({"kty": "oct", "k": base64("secret"), "kid": "oct"});
    let checked = Checked::new(&Published::of(&[signer.jwk(), rsa.clone(), secret]));
    let secrets = [
        rsa["n"].as_str().unwrap().as_bytes().to_vec(),
        vec![0xc5; 256],
        rsa.to_string().into_bytes(),
        signer.jwk().to_string().into_bytes(),
        b"secret".to_vec(),
    ];
    for id in ["a", "rsa", "oct"] {
        for secret in &secrets {
            let head = base64(json!({"alg": "HS256", "kid": id}).to_string());
            let text = format!("{head}.{}", base64(claims().to_string()));
            let key = hmac::Key::new(hmac::HMAC_SHA256, secret);
            let token = format!("{text}.{}", base64(hmac::sign(&key, text.as_bytes())));
            let error = checked.of(&token).await.unwrap_err();
            assert_eq!(error.code(), Code::Unauthenticated, "{id}: {error}");
        }
    }
}

#[tokio::test]
async fn a_token_does_not_say_what_its_key_is_for() {
    let signer = Signer::ecdsa("a");
    let mut key = signer.jwk();
    let good = signer.sign(&claims());
    for (name, value) in [("alg", json!("ES384")), ("use", json!("enc"))] {
        key[name] = value;
        let other = Signer::ed25519("other").jwk();
        let checked = Checked::new(&Published::of(&[key.clone(), other]));
        checked.of(&good).await.unwrap_err();
        key = signer.jwk();
    }
    let checked = Checked::new(&Published::of(&[key]));
    for head in [
        json!({"alg": "EdDSA", "kid": "a"}),
        json!({"alg": "RS256", "kid": "a"}),
        json!({"alg": "ES256", "kid": "b"}),
        json!({"alg": "ES256", "kid": "a", "crit": ["exp"]}),
        json!({"alg": "ES256", "kid": "a", "b64": false, "crit": ["b64"]}),
    ] {
        checked.of(&signer.sign_with(&head, &claims())).await.unwrap_err();
    }
    // A key in the token is nobody's.
    let own = Signer::ecdsa("a");
    let head = json!({"alg": "ES256", "kid": "a", "jwk": own.jwk()});
    checked.of(&own.sign_with(&head, &claims())).await.unwrap_err();
    let head = json!({"alg": "ES256"});
    checked.of(&signer.sign_with(&head, &claims())).await.unwrap();
}
