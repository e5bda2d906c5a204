//! Code for the service of the admin listener.

fn main() -> Result<(), tidewire_build::Error> {
    tidewire_build::Config::new()
        .folder("proto")
        .runtime_path("::tidewire_service::generated")
        .compile()
}
