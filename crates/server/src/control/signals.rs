//! The signals that a program hears: the first one ends it gently, a second one at once.

use std::future::poll_fn;
use std::io;

use tidewire_listen::notify;
use tokio::signal::unix::{self, SignalKind};

use crate::control::running_server::RunningServer;
use crate::runtime::stop::Stage;

impl RunningServer {
    /// Waits for Ctrl-C or SIGTERM, then drains; a second signal cuts off at once. SIGHUP is
    /// left to whoever has the [`reload_handle`](crate::Builder::reload_handle); without one it is
    /// logged, and changes no setting.
    ///
    /// Signals are heard from the call on, before the future is awaited: a program that says that
    /// it listens in between is stopped gently by whoever reads that.
    ///
    /// # Errors
    /// When the signals cannot be listened to; `Interrupted` after a second one.
    pub fn until_stopped(self) -> impl Future<Output = io::Result<bool>> + Send {
        let signals = Signals::listen(self.reload.is_taken());
        async move {
            let mut signals = signals?;
            let drains = self.handle.drains.clone();
            notify::tell(notify::READY);
            tokio::select! {
                () = signals.next() => {}
                () = poll_fn(|cx| drains.poll_fired(cx)) => {}
            }
            notify::tell(notify::STOPPING);
            let stop = self.stop.clone();
            let commands = self.commands.clone();
            tokio::select! {
                in_time = self.drain() => Ok(in_time),
                () = signals.next() => {
                    stop.advance(Stage::CutOff);
                    commands.cut_off();
                    Err(io::Error::new(io::ErrorKind::Interrupted, TWICE))
                }
            }
        }
    }
}

/// The signals that end a program, listened to from one to the next, so that none is missed
/// between.
struct Signals {
    terminate: unix::Signal,
    interrupt: unix::Signal,
    hangup: unix::Signal,
    /// Whether somebody else reads settings at SIGHUP.
    is_followed: bool,
}

impl Signals {
    fn listen(is_followed: bool) -> io::Result<Self> {
        Ok(Self {
            is_followed,
            terminate: unix::signal(SignalKind::terminate())?,
            interrupt: unix::signal(SignalKind::interrupt())?,
            hangup: unix::signal(SignalKind::hangup())?,
        })
    }

    /// Waits for the next one.
    async fn next(&mut self) {
        loop {
            tokio::select! {
                _ = self.interrupt.recv() => return,
                _ = self.terminate.recv() => return,
                _ = self.hangup.recv() => if !self.is_followed {
                    tracing::info!("SIGHUP changes no setting of the server; they are read when it starts");
                }
            }
        }
    }
}

const TWICE: &str = "a second signal came before the drain was over; what still ran was cut off";
