//! What an answer of a hosted process was made of comes with it, also where it takes many frames.

use std::future::poll_fn;
use std::task::Poll;

use bytes::Bytes;
use tidewire_live::Depends;

use crate::pair::query;
use crate::shared_writer::hosted;

#[tokio::test]
async fn an_answer_of_many_frames_is_made_of_what_its_first_one_says() {
    let (link, _) = hosted(4096).await;
    let mut placed = link.call_hosted(query("Long", Bytes::new()), |_| ()).await.unwrap();
    let (reply, made_of) = poll_fn(|cx| {
        // Whoever waits has nothing from one look to the next.
        let mut made_of = Vec::new();
        match placed.poll_answer(cx, &mut made_of) {
            Poll::Ready(reply) => Poll::Ready((reply.unwrap(), made_of)),
            Poll::Pending => Poll::Pending,
        }
    })
    .await;
    assert_eq!(reply.body.collect(1 << 20).await.unwrap().len(), 300_000);
    assert_eq!(made_of, [Depends::Key("rows".into(), "1".into())]);
}
