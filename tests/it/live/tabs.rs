//! Two tabs with one session: the second has it, and the first is told.

use super::{BINARY, Raw};
use crate::harness::{behaviour, start};

/// A hello of a dialer that can resume: of this boot, and with what proves the session if there is
/// one.
fn hello(session: Option<&Session>) -> Vec<u8> {
    // Versions 1 to 1, RESUME, boot.
    let mut payload = vec![1, 4, 1, 0, 1, 0, 2, 1, 8, 11, 16];
    payload.extend([7; 16]);
    if let Some(Session { id, secret }) = session {
        payload.extend([&[12, 16][..], id, &[13, 32], secret].concat());
    }
    let mut frame = vec![payload.len() as u8, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0];
    frame.extend(b"TWLV");
    frame.extend(payload);
    frame
}

struct Session {
    id: Vec<u8>,
    secret: Vec<u8>,
}

/// The session in a server's hello, and whether it was resumed.
fn session(hello: &[u8]) -> (Session, bool) {
    let length = usize::from(u16::from_le_bytes([hello[0], hello[1]]));
    let metadata = usize::from(u16::from_le_bytes([hello[10], hello[11]]));
    let mut rest = &hello[16 + metadata..16 + length];
    let (mut id, mut secret, mut resumed) = (Vec::new(), Vec::new(), false);
    while let [tag, length, more @ ..] = rest {
        let (value, after) = more.split_at(usize::from(*length));
        match tag {
            12 => id = value.to_vec(),
            13 => secret = value.to_vec(),
            14 => resumed = value == [1],
            _ => {}
        }
        rest = after;
    }
    (Session { id, secret }, resumed)
}

#[tokio::test]
async fn the_second_tab_with_a_session_takes_it_over_and_the_first_is_told() {
    let (builder, _) = behaviour();
    let (_running, address) = start(builder).await;
    let mut first = Raw::open(address).await;
    first.send(BINARY, &hello(None)).await;
    let (of_first, resumed) = session(&first.read().await.1);
    assert_eq!((of_first.id.len(), of_first.secret.len(), resumed), (16, 32, false));
    let mut second = Raw::open(address).await;
    second.send(BINARY, &hello(Some(&of_first))).await;
    let (of_second, resumed) = session(&second.read().await.1);
    assert!(resumed);
    assert_eq!(of_second.id, of_first.id);
    assert_eq!(first.close_code().await, 4023, "taken_over");
    // Without the secret there is no session to take.
    let mut thief = Raw::open(address).await;
    let guessed = Session { id: of_first.id, secret: vec![0; 32] };
    thief.send(BINARY, &hello(Some(&guessed))).await;
    let (of_thief, resumed) = session(&thief.read().await.1);
    assert!(!resumed);
    assert_ne!(of_thief.id, of_second.id);
}
