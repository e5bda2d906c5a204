//! `bench_run`: load on the program, to its end or for as long as a caller waits for a tool.

use serde_json::{Map, Value, json};
use tidewire_service::Result;

use crate::Tools;

pub(crate) const HINT: &str = "Answers the figures of the run. Waits for its end for 45 s; a longer run goes on, and bench_get \
     with its id tells of it. Ask before the method is one that changes something: each call does it.";

pub(crate) async fn run(tools: &Tools, given: Map<String, Value>) -> Result<Value> {
    let mut load = tools.call("Loads/Start", given).await?;
    for _ in 0..WAITS {
        if load["state"] != "running" {
            break;
        }
        let wait = json!({"id": load["id"], "waitMs": WAIT_MS});
        let Value::Object(wait) = wait else { break };
        load = tools.call("Loads/Get", wait).await?;
    }
    if let Value::Object(load) = &mut load {
        load.remove("seconds");
    }
    Ok(load)
}

const WAITS: u32 = 9;
const WAIT_MS: u32 = 5000;
