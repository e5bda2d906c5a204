//! A gateway in few lines, for tests: the supervisor of all of them, and what one of them kills.
//!
//! It hosts one program on a Unix socket and serves it. Arguments: the socket to listen on, then
//! the program and its arguments. `LISTEN` is how that is reached, a Unix socket unless set,
//! `IDLE_FREEZE` after how many seconds without a call it is frozen.

use std::time::Duration;

use tidewire_hosting::{Host, LifeLimits, Listen, Program};
use tidewire_proxy::{Route, Routes};
use tidewire_server::{Address, Server};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    tidewire_hosting::supervisor();
    let mut arguments = std::env::args().skip(1);
    let socket = arguments.next().ok_or("no socket to listen on")?;
    let runtime = tokio::runtime::Runtime::new()?;
    runtime.block_on(async move {
        let host = Host::start()?;
        let listen = match std::env::var("LISTEN").as_deref() {
            Ok("inherited") => Listen::Inherited,
            Ok("native") => Listen::Native,
            _ => Listen::Unix,
        };
        let program = Program::new("program", arguments).listen(listen);
        let mut limits = LifeLimits::default();
        limits.start_timeout = Duration::from_secs(120);
        if let Ok(seconds) = std::env::var("IDLE_FREEZE") {
            limits.idle_freeze = Some(Duration::from_secs(seconds.parse()?));
        }
        let mut sites = Routes::new();
        sites.add(Route::new("/*")?, host.add(program, limits))?;
        let listen = Address::Unix(socket.into());
        let running = Server::builder().listen(listen).mount("/", sites).start().await?;
        running.until_stopped().await?;
        host.stop().await;
        Ok(())
    })
}
