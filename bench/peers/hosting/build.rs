//! Makes Rust of what the workers serve.

fn main() -> Result<(), tidewire_build::Error> {
    tidewire_build::compile("proto")
}
