//! Code for the messages that a collector takes.

fn main() -> Result<(), tidewire_build::Error> {
    tidewire_build::Config::new()
        .folder("proto")
        .runtime_path("::tidewire_service::generated")
        .compile()
}
