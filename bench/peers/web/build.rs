//! Makes Rust of the typed service.

fn main() -> Result<(), tidewire_build::Error> {
    tidewire_build::compile("proto")
}
