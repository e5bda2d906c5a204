//! Which tokens a request's writes gave: gathered while it runs, so that its reply can carry them.

use std::cell::RefCell;

use crate::token::Token;

tokio::task_local! {
    static COLLECTED: RefCell<Token>;
}

/// Runs a call and returns what it gave, with the token of what was written meanwhile in its task.
///
/// A write in another task is not seen; pass its token to [`note`] in the task that waits for it.
pub async fn collect<F: Future>(call: F) -> (F::Output, Token) {
    let scoped = COLLECTED.scope(RefCell::new(Token::default()), async move {
        let output = call.await;
        (output, COLLECTED.with(RefCell::take))
    });
    Box::pin(scoped).await
}

/// Adds a token to those of the running [`collect`]. Nothing happens outside of one.
pub fn note(token: &Token) {
    let _ = COLLECTED.try_with(|collected| collected.borrow_mut().merge(token));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cursor::Incarnation;

    #[tokio::test]
    async fn a_call_is_given_the_tokens_of_its_own_writes() {
        let here = Incarnation([1; 16]);
        note(&Token::of(&here, 3));
        let (output, token) = collect(async {
            note(&Token::of(&here, 5));
            let (_, inner) = collect(async { note(&Token::of(&here, 7)) }).await;
            assert_eq!(inner, Token::of(&here, 7));
            1
        })
        .await;
        assert_eq!((output, token), (1, Token::of(&here, 5)));
    }
}
