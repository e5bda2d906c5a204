//! `tidewire console`: the address of the page that shows what a running program does.

use std::io::Write as _;

use anyhow::anyhow;
use tidewire::admin::proto::tidewire::admin::v1::{OpenConsoleRequest, SystemClient};

use crate::admin::{Admin, body_or_failure};
use crate::failure::Failure;

/// Print the address of the console of a running program, a page that shows its calls, caches,
/// services and mocks.
///
/// The address works once, within a minute: it contains a code that signs the browser in.
#[derive(Debug, clap::Args)]
pub(crate) struct Console {
    #[command(flatten)]
    admin: Admin,
}

impl Console {
    pub(crate) async fn run(self) -> Result<(), Failure> {
        let (address, _) = self.admin.place()?;
        if address.starts_with("unix:") {
            return Err(Failure::usage(anyhow!(
                "no browser reaches {address}; set admin.listen = \"127.0.0.1:8081\""
            )));
        }
        let client = SystemClient::new(self.admin.channel()?);
        let request = OpenConsoleRequest::default();
        let reply = client.open_console(request).await;
        let code = body_or_failure(reply)?.code;
        // Who listens there may be another program by now, and a terminal obeys what it is written.
        if code.len() != 32 || !code.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(anyhow::anyhow!("{address} does not answer as an admin listener").into());
        }
        let address = address.trim_end_matches('/');
        let start = if address.contains("://") { "" } else { "http://" };
        let mut out = std::io::stdout().lock();
        Ok(writeln!(out, "{start}{address}/#{code}")?)
    }
}
