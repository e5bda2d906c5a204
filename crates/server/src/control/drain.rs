//! How a server ends gently.
//!
//! A drain takes five steps: health says NOT_SERVING, `limits.drain_grace` passes, listeners close,
//! connections finish the calls they have and close, running commands are joined. What is left
//! after `limits.drain_timeout` is cut off. A connection without a call, be it in a TLS handshake
//! or half a head, is not waited for, but for a second after it was accepted: its first request may
//! be on its way.

use crate::control::running_server::RunningServer;
use crate::runtime::stop::Stage;
use crate::runtime::usage::Usage;

impl RunningServer {
    /// Ends the server: running calls may end, within `limits.drain_timeout`.
    ///
    /// Returns whether every call and every command ended by itself.
    pub async fn drain(self) -> bool {
        self.handle.health.shut_down();
        let grace = self.drain_grace;
        let timeout = self.drain_timeout;
        if !grace.is_zero() {
            tracing::info!(
                "draining: calls are taken for limits.drain_grace = {grace:?} more, until load balancers know"
            );
            tokio::time::sleep(grace).await;
        }
        self.stop.advance(Stage::Draining);
        self.tasks.close();
        let Usage { connections_open: connections, commands_running: commands, .. } = self.usage();
        if connections + commands > 0 {
            tracing::info!(
                connections,
                commands,
                "draining: what runs may end within limits.drain_timeout = {timeout:?}"
            );
        }
        let ended = async {
            self.tasks.wait().await;
            self.commands.join().await;
        };
        if tokio::time::timeout(timeout, ended).await.is_ok() {
            tracing::info!("drained: every call and command ended by itself");
            return true;
        }
        let commands = self.commands.running();
        self.stop.advance(Stage::CutOff);
        self.commands.cut_off();
        self.tasks.wait().await;
        self.commands.join().await;
        let calls = self.stop.calls_cut_off();
        if calls + commands == 0 {
            tracing::info!("drained: the connections that were left had no calls, and were closed");
            return true;
        }
        tracing::warn!(
            calls,
            commands,
            "what still ran after limits.drain_timeout = {timeout:?} was cut off"
        );
        false
    }
}
