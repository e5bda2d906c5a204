//! Calls of live connections: what they are for, and whether they may be sent again.
//!
//! | a call | answered |
//! |---|---|
//! | of a command of a lost session, by a method that keeps no keys | ABORTED; *unknown* |
//! | any other | as every call that no HTTP request carries (`app/answer.rs`) |

use std::sync::Arc;

use tidewire_live::{AnswerFuture, CallFailure, CallTarget, Host, IdentityFuture, IncomingCall};
use tidewire_service::{Call, Codec, Error, Head, Headers, HttpTarget, Peer, Signal, Target};

use crate::app::answer::error_answer;
use crate::app::{App, AppHandle};
use crate::protocols::live::identity::identify;
use crate::request::trace;
use crate::services::command_keys::CommandKeys;

/// Answers the calls of live connections.
pub(super) struct Calls {
    pub(super) latest: AppHandle,
    /// Tells handlers of a drain.
    pub(super) stopping: Signal,
    /// Which methods keep the keys of their commands.
    pub(super) keys: CommandKeys,
}

impl Calls {
    /// The server by the settings that it has now.
    fn app(&self) -> Option<Arc<App>> {
        self.latest.now()
    }

    fn answer_by(&self, app: Arc<App>, arrived: IncomingCall) -> AnswerFuture {
        let IncomingCall { target, context, body, is_command, is_sent_again, .. } = arrived;
        let (target, codec) = match target {
            CallTarget::Method(asked) => match app.methods.find(&asked.path) {
                Some(entry) if is_sent_again && !self.keys.holds(&entry.method) => {
                    let text = format!("outcome unknown: {} keeps no command keys", asked.path);
                    return Box::pin(std::future::ready(Err(CallFailure::unknown(
                        Error::aborted(text),
                    ))));
                }
                Some(entry) => (Target::Method(entry.method.clone()), asked.codec),
                None => (Target::Unknown((*asked.path).into()), asked.codec),
            },
            CallTarget::Http(verb, uri) => {
                (Target::Http(HttpTarget::new(verb, uri)), Codec::default())
            }
            CallTarget::Nothing(what) => {
                return error_answer(Error::invalid_argument(format!("it asks {what}")));
            }
        };
        let mut head = Head::new(target, context.with_stopping(self.stopping.clone()));
        if let Some(sampled) = app.traces {
            trace::mark(&mut head.context, sampled);
        }
        if app.gates.is_empty() && app.observers.is_empty() {
            let (call, _) = Call::from_head(head, body);
            return app.run_admitted(call.with_codecs(codec, codec), is_command);
        }
        Box::pin(async move { app.answer(head, body, codec, is_command).await })
    }
}

impl Host for Calls {
    fn answer(&self, call: IncomingCall) -> AnswerFuture {
        match self.app() {
            Some(app) => self.answer_by(app, call),
            None => error_answer(Error::unavailable("the server stopped")),
        }
    }

    fn identify(&self, headers: Headers, peer: Option<Arc<Peer>>) -> Option<IdentityFuture> {
        let app = self.app()?;
        Some(Box::pin(async move { identify(&app, headers, peer).await }))
    }

    fn knows(&self, path: &str) -> bool {
        self.app().is_some_and(|app| app.methods.find(path).is_some())
    }
}
