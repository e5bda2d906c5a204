//! Two sessions joined by a wire that loses nothing.

use tidewire_live_proto::{
    Acceptor, CallId, Config, Continuation, MethodId, OutgoingReply, Request, Session, SessionId,
};
use tidewire_service::Codec;

use crate::heard::{Event, Incoming, hear};

pub(crate) struct Pair {
    pub(crate) client: Session,
    pub(crate) server: Session,
    pub(crate) now: u64,
    pub(crate) at_client: Vec<Event>,
    pub(crate) at_server: Vec<Event>,
}

pub(crate) const ID: SessionId = SessionId { id: [1; 16], secret: [2; 32] };

impl Pair {
    pub(crate) fn new() -> Self {
        Self::with(Config::default(), Config::default())
    }

    pub(crate) fn with(client: Config, server: Config) -> Self {
        let mut client = Session::dialer(client);
        client.connect(0);
        let server = accept(&mut client, Acceptor::new(server, 0));
        let mut pair =
            Self { client, server, now: 0, at_client: Vec::new(), at_server: Vec::new() };
        pair.run();
        pair.at_client.clear();
        pair.at_server.clear();
        pair
    }

    /// Moves bytes until nothing moves.
    pub(crate) fn run(&mut self) {
        loop {
            let (now, mut moved) = (self.now, false);
            moved |= carry(&mut self.client, &mut self.server, now);
            moved |= carry(&mut self.server, &mut self.client, now);
            while let Some(event) = hear(&mut self.client, now) {
                self.at_client.push(event);
                moved = true;
            }
            while let Some(event) = hear(&mut self.server, now) {
                self.at_server.push(event);
                moved = true;
            }
            if !moved {
                return;
            }
        }
    }

    /// Both sides lose the connection, and the client resumes.
    pub(crate) fn reconnect(&mut self) {
        self.client.connection_lost(self.now);
        self.server.connection_lost(self.now);
        self.resume();
    }

    pub(crate) fn resume(&mut self) {
        self.client.connect(self.now);
        let mut wire = Vec::new();
        self.client.poll_output(self.now, &mut wire);
        let mut acceptor = Acceptor::new(Config::default(), self.now);
        acceptor.input().extend_from_slice(&wire);
        let hello = acceptor.poll(self.now).unwrap().unwrap();
        assert_eq!(hello.session, Some(ID.id));
        acceptor.resume(&mut self.server, hello, self.now);
        self.run();
    }

    /// The server is restarted: another boot, nothing known.
    pub(crate) fn restart_server(&mut self) {
        self.restart_server_with(Config::default());
    }

    pub(crate) fn restart_server_with(&mut self, config: Config) {
        self.client.connection_lost(self.now);
        self.client.connect(self.now);
        self.server = accept(&mut self.client, Acceptor::new(config, self.now));
        self.run();
    }

    pub(crate) fn method(&mut self) -> MethodId {
        self.client.method("/test.v1.Test/Do", Codec::Proto)
    }

    pub(crate) fn call(&mut self, request: Request) -> CallId {
        let call = self.client.call(request, self.now).unwrap();
        self.run();
        call
    }

    /// The call that the server received last.
    pub(crate) fn incoming(&mut self) -> Incoming {
        let at = self
            .at_server
            .iter()
            .rposition(|event| matches!(event, Event::Request(_)))
            .expect("a request arrived");
        match self.at_server.remove(at) {
            Event::Request(incoming) => incoming,
            _ => unreachable!("the position is that of a request"),
        }
    }

    pub(crate) fn reply(&mut self, call: CallId, reply: OutgoingReply<'_>) {
        self.server.reply(call, reply);
        self.run();
    }

    /// Payloads of the whole answers that the client has.
    pub(crate) fn answers(&self) -> Vec<Vec<u8>> {
        self.at_client
            .iter()
            .filter_map(|event| match event {
                Event::Reply(answer) if answer.then != Continuation::Items => {
                    Some(answer.payload.clone())
                }
                _ => None,
            })
            .collect()
    }
}

fn accept(client: &mut Session, mut acceptor: Acceptor) -> Session {
    let mut wire = Vec::new();
    client.poll_output(0, &mut wire);
    acceptor.input().extend_from_slice(&wire);
    let hello = acceptor.poll(0).unwrap().unwrap();
    acceptor.accept(hello, ID, 0)
}

pub(crate) fn carry(from: &mut Session, to: &mut Session, now: u64) -> bool {
    let mut wire = Vec::new();
    let moved = from.poll_output(now, &mut wire);
    to.input().extend_from_slice(&wire);
    moved
}
