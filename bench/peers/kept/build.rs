//! The service of `kept.proto`.

fn main() -> Result<(), tidewire_build::Error> {
    tidewire_build::compile("proto")
}
