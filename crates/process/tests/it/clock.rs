//! Time that passes while a process is frozen: the clock of the gateway is put forward.

use std::time::Duration;

use serde_json::json;
use tidewire_process::{Life, State};
use tidewire_service::{Call, Codec, Context, Service};

use crate::native::{Gateway, go, json_of, node, python, rust};
use crate::{get, host, life, programs};

/// Frozen at once, and never ended.
fn frozen() -> Life {
    life(|life| (life.idle_freeze, life.idle_stop) = (Some(Duration::ZERO), None))
}

async fn a_day_passes() {
    tokio::time::pause();
    tokio::time::advance(Duration::from_hours(24)).await;
    tokio::time::resume();
}

#[tokio::test]
async fn a_day_in_the_ice_ends_no_session() {
    for command in [python("threads"), python("async"), node("fetch"), go(), rust()] {
        let gateway = Gateway::start(&command, Codec::Json, frozen()).await;
        let pid = async || {
            let (asked, request) = (gateway.method("Do"), json!({ "text": "pid" }).to_string());
            let call = Call::method(asked, Context::default(), Codec::Json, request);
            json_of(gateway.hosted.call(call).await.unwrap()).await.unwrap()
        };
        let before = pid().await;
        for _ in 0..3 {
            gateway.hosted.until(|status| status.state == State::Frozen).await;
            a_day_passes().await;
            assert_eq!(pid().await, before, "{command:?}");
        }
        gateway.stop().await;
    }
}

#[tokio::test]
async fn a_day_in_the_ice_keeps_no_call_from_a_program_of_plain_http() {
    for program in programs(&[]) {
        let host = host();
        let hosted = host.add(program, frozen());
        let before = get(&hosted, "/pid").await.unwrap();
        for _ in 0..3 {
            hosted.until(|status| status.state == State::Frozen).await;
            a_day_passes().await;
            assert_eq!(get(&hosted, "/pid").await.unwrap(), before);
        }
        host.stop().await;
    }
}
