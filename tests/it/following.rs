//! Queries that are followed by clients that do not speak the live protocol.

mod events;
pub(crate) mod streams;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tidewire::{Error, Gate, Head, Result};

use crate::harness::send;

/// Writes a row through REST.
async fn set(address: SocketAddr, id: u32, value: u32) {
    let row = format!(r#"{{"id":"{id}","value":"{value}"}}"#);
    let head = "POST /rows\ncontent-type: application/json\nauthorization: Bearer ada";
    send(address, head, row.as_bytes()).await.check(200, &[]);
}

/// Lets readers pass for as long as they may.
fn may_read(allowed: &Arc<AtomicBool>) -> impl Gate + use<> {
    let allowed = Arc::clone(allowed);
    move |head: &mut Head| -> Result<()> {
        let reads = head.target.describe().ends_with("/Get");
        match allowed.load(Ordering::SeqCst) || !reads {
            true => Ok(()),
            false => Err(Error::permission_denied("not any more")),
        }
    }
}
