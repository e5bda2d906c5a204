//! Whose a session is, and what takes the place of its credential.

use tidewire::Code;
use tidewire_live_proto::{Metadata, Reason, Watch};

use super::by_hand::{ByHand, Told};
use crate::auth::{KEY, Signer, file, shop};

fn header(name: &str, value: &str) -> Metadata {
    Metadata::builder().header(name, value).build()
}

fn bearer(token: &str) -> Metadata {
    header("authorization", &format!("Bearer {token}"))
}

impl ByHand {
    /// Who the service says that it was asked by.
    async fn who(&mut self) -> String {
        self.ask("/test.v1.Shop/Plain", "{}", Watch::No);
        match self.next().await {
            Told::Reply { text, .. } => text,
            told => panic!("no reply: {told:?}"),
        }
    }
}

/// For as long as its token is good.
const TAKEN: Told = Told::Credential { is_refused: false, is_limited: true };
const REFUSED: Told = Told::Credential { is_refused: true, is_limited: false };

const ADA: &str = r#"{"who":"ada"}"#;

#[tokio::test]
async fn a_session_takes_another_credential_of_its_principal_and_no_refused_one() {
    let signer = Signer::new("a");
    let (_folder, keys) = file(&[signer.jwk()]);
    let (_running, address, _) = shop(&keys).await;
    let mut ada = ByHand::dial_with(address, bearer(&signer.token("read", 600))).await;
    assert_eq!(ada.who().await, ADA);
    ada.session.auth(&bearer(&signer.token("write", 900)));
    assert_eq!(ada.next().await, TAKEN);
    assert_eq!(ada.who().await, ADA);
    for refused in [
        bearer(&signer.token("write", -600)),
        bearer("no token"),
        Metadata::builder().header("authorization", "").header("x-api-key", "wrong").build(),
    ] {
        ada.session.auth(&refused);
        assert_eq!(ada.next().await, REFUSED);
        assert_eq!(ada.who().await, ADA, "the one before is still good");
    }
}

#[tokio::test]
async fn a_session_ends_with_a_credential_of_somebody_else() {
    let signer = Signer::new("a");
    let (_folder, keys) = file(&[signer.jwk()]);
    let (_running, address, _) = shop(&keys).await;
    let ada = || bearer(&signer.token("write", 600));
    let bob = || bearer(&signer.token_of("bob", "write", 600));
    let key = || header("x-api-key", KEY);
    for (first, second) in [
        (ada(), bob()),
        (ada(), header("authorization", "")),
        (key(), bob()),
        (Metadata::default(), ada()),
        (Metadata::default(), key()),
    ] {
        let mut session = ByHand::dial_with(address, first.clone()).await;
        session.session.auth(&second);
        let told = session.next().await;
        assert_eq!(told, Told::Closed(Reason::Unauthenticated), "{first:?}, {second:?}");
    }
}

/// Browsers send the cookies of a host along, whoever set them.
#[tokio::test]
async fn a_cookie_that_means_nothing_refuses_no_connection() {
    let (_folder, keys) = file(&[Signer::new("a").jwk()]);
    let (_running, address, _) = shop(&keys).await;
    let mut session = ByHand::dial_with(address, header("cookie", "theme=dark")).await;
    session.ask("/test.v1.Shop/Open", "{}", Watch::No);
    let told = session.next().await;
    let is_let_in = matches!(told, Told::Failed(_, Code::FailedPrecondition));
    assert!(is_let_in, "a command that comes as a query: {told:?}");
}

/// Whether it is watched, and with what, is for the credential of now to say.
#[tokio::test]
async fn a_watch_goes_on_with_the_credential_in_place_of_the_one_before() {
    let signer = Signer::new("a");
    let (_folder, keys) = file(&[signer.jwk()]);
    let (_running, address, _) = shop(&keys).await;
    let mut ada = ByHand::dial_with(address, bearer(&signer.token("write", 600))).await;
    let of_writers = ada.ask("/test.v1.Shop/Writers", "{}", Watch::Values);
    assert!(matches!(ada.next().await, Told::Reply { is_watched: true, .. }));
    ada.session.auth(&bearer(&signer.token("write other", 900)));
    assert_eq!(ada.next().await, TAKEN);
    // It is suspect for a moment at most, and is then told to be what it was.
    let goes_on = |told: &Told| matches!(told, Told::Reply { call, is_watched: true, .. } if *call == of_writers);
    while !goes_on(&ada.next().await) {}
    ada.session.auth(&bearer(&signer.token("read", 900)));
    let failed = Told::Failed(of_writers, Code::PermissionDenied);
    while ada.next().await != failed {}
}

/// A session that is gone on with shows its credential anew, which may be another: what it watches
/// is not confirmed then, but asked for again.
#[tokio::test]
async fn a_watch_is_asked_again_when_its_session_is_resumed_with_another_credential() {
    let signer = Signer::new("a");
    let (_folder, keys) = file(&[signer.jwk()]);
    let (_running, address, _) = shop(&keys).await;
    let token = bearer(&signer.token("write", 600));
    let mut ada = ByHand::dial_with(address, token.clone()).await;
    let of_writers = ada.ask("/test.v1.Shop/Writers", "{}", Watch::Values);
    assert!(matches!(ada.next().await, Told::Reply { is_watched: true, .. }));
    let told = ada.dial_again_with(&token).await;
    assert_eq!(told, [Told::Connected { resumed: true }]);
    assert_eq!(ada.who().await, ADA, "and the watch goes on");
    let told = ada.dial_again_with(&bearer(&signer.token("read", 900))).await;
    assert_eq!(told.last(), Some(&Told::Connected { resumed: true }), "{told:?}");
    // It asks again when its session says so, with what it shows now.
    let due = ada.session.poll_timeout().unwrap();
    ada.session.handle_timeout(due);
    let failed = Told::Failed(of_writers, Code::PermissionDenied);
    while ada.next().await != failed {}
}
