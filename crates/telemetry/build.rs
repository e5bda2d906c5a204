//! Code for the messages that a collector takes.

#[cfg(feature = "otlp")]
fn main() -> Result<(), tidewire_build::Error> {
    tidewire_build::Config::new()
        .folder("proto")
        .runtime_path("::tidewire_service::generated")
        .compile()
}

#[cfg(not(feature = "otlp"))]
fn main() {}
