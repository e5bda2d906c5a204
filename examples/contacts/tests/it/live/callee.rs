//! The callee: an acceptor's session, the service on a real store, and what is between the two.

use std::collections::VecDeque;
use std::sync::Arc;

use contacts::TypedContacts;
use contacts::proto::contacts::v1::{Contact, Contacts as _, CreateRequest};
use contacts::store::Store;
use tidewire::{Context, Result};
use tidewire_live_proto::{Acceptor, CallId, Event, OutgoingReply, Session, SessionId, Sessions};

use super::config;

/// Where the contacts are, over restarts.
pub(super) trait Database {
    type Store: Store;

    async fn open(&self) -> Self::Store;
}

/// A command that was read.
struct Command<S> {
    call: CallId,
    context: Context,
    request: CreateRequest,
    /// Of the process that read it.
    service: Arc<TypedContacts<S>>,
}

#[allow(clippy::large_enum_variant, reason = "there is one of it")]
enum End {
    None,
    Greeting(Acceptor),
    Open(Box<Session>),
}

pub(super) struct Callee<D: Database> {
    database: D,
    service: Arc<TypedContacts<D::Store>>,
    end: End,
    parked: Sessions<Session>,
    /// Read, and not handled.
    read: VecDeque<Command<D::Store>>,
    /// Read by a process that the load balancer sends nothing more to.
    late: VecDeque<Command<D::Store>>,
    /// Handled, and not answered.
    handled: VecDeque<(CallId, Result<Contact>)>,
    boots: u8,
    sessions: u8,
}

impl<D: Database> Callee<D> {
    pub(super) async fn start(database: D) -> Self {
        let service = Arc::new(TypedContacts::new(Arc::new(database.open().await)));
        Self {
            database,
            service,
            end: End::None,
            parked: Sessions::new(8),
            read: VecDeque::new(),
            late: VecDeque::new(),
            handled: VecDeque::new(),
            boots: 1,
            sessions: 0,
        }
    }

    /// A store as of after the next restart.
    pub(super) async fn store(&self) -> D::Store {
        self.database.open().await
    }

    /// The caller dials.
    pub(super) fn connected(&mut self, now: u64) {
        self.end = End::Greeting(Acceptor::new(config(self.boots), now));
    }

    /// Takes what arrived.
    pub(super) fn read(&mut self, wire: &mut Vec<u8>, now: u64) -> bool {
        let arrived = std::mem::take(wire);
        match &mut self.end {
            End::None => return false,
            End::Greeting(acceptor) => acceptor.input().extend_from_slice(&arrived),
            End::Open(session) => session.input().extend_from_slice(&arrived),
        }
        self.greet(now);
        self.hear(now);
        !arrived.is_empty()
    }

    fn greet(&mut self, now: u64) {
        let End::Greeting(acceptor) = &mut self.end else { return };
        let Some(hello) = acceptor.poll(now).unwrap() else { return };
        let End::Greeting(acceptor) = std::mem::replace(&mut self.end, End::None) else { return };
        let session = match self.parked.take(&hello, b"ada") {
            Some(mut session) => {
                acceptor.resume(&mut session, hello, now);
                session
            }
            None => {
                self.sessions += 1;
                let id = SessionId { id: [self.sessions; 16], secret: [7; 32] };
                acceptor.accept(hello, id, now)
            }
        };
        self.end = End::Open(Box::new(session));
    }

    fn hear(&mut self, now: u64) {
        let End::Open(session) = &mut self.end else { return };
        while let Some(event) = session.poll_event(now) {
            let Event::Request(incoming) = event else { continue };
            let mut context = Context::default();
            if let Some(origin) = incoming.origin() {
                context.set_command(origin.client(), origin.id.to_string());
            }
            self.read.push_back(Command {
                call: incoming.call,
                context,
                request: serde_json::from_slice(incoming.payload()).unwrap(),
                service: Arc::clone(&self.service),
            });
        }
    }

    /// Runs the handler of one command.
    pub(super) async fn handle(&mut self) -> bool {
        let Some(command) = self.read.pop_front() else { return false };
        let (call, outcome) = command.run().await;
        self.handled.push_back((call, outcome));
        true
    }

    /// Runs the handler of a command that an earlier process read; nobody hears its answer.
    pub(super) async fn handle_late(&mut self) -> bool {
        let Some(command) = self.late.pop_front() else { return false };
        // At the same time as what this process has read.
        let (_, now) = tokio::join!(command.run(), async {
            match self.read.pop_front() {
                Some(command) => Some(command.run().await),
                None => None,
            }
        });
        self.handled.extend(now);
        true
    }

    /// Gives the session what one handler answered.
    pub(super) fn answer(&mut self) -> bool {
        let End::Open(session) = &mut self.end else { return false };
        let Some((call, outcome)) = self.handled.pop_front() else { return false };
        match outcome {
            Ok(contact) => {
                let json = serde_json::to_string(&contact).unwrap();
                session.reply(call, OutgoingReply::new(json.as_bytes()));
            }
            Err(error) => session.fail(call, &error),
        }
        true
    }

    pub(super) fn write(&mut self, wire: &mut Vec<u8>, now: u64) -> bool {
        let End::Open(session) = &mut self.end else { return false };
        session.poll_output(now, wire)
    }

    /// The connection is lost; the session waits to be resumed.
    pub(super) fn lose(&mut self, now: u64) {
        if let End::Open(mut session) = std::mem::replace(&mut self.end, End::None) {
            session.connection_lost(now);
            while session.poll_event(now).is_some() {}
            if let Some(ticket) = session.ticket() {
                let id = *ticket.id();
                self.parked.hold(ticket, "ada".into(), *session);
                self.parked.park(&id, 0, now);
            }
        }
    }

    /// Everything in memory is lost, or goes on in a process that nobody is connected to.
    pub(super) async fn restart(&mut self, old_goes_on: bool) {
        self.end = End::None;
        self.parked = Sessions::new(8);
        self.handled.clear();
        let read = std::mem::take(&mut self.read);
        if old_goes_on {
            self.late.extend(read);
        }
        self.boots += 1;
        self.service = Arc::new(TypedContacts::new(Arc::new(self.database.open().await)));
    }
}

impl<S: Store> Command<S> {
    async fn run(self) -> (CallId, Result<Contact>) {
        let answer = self.service.create(self.context, self.request).await;
        (self.call, answer.map(|reply| reply.body))
    }
}
