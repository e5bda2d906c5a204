//! Makes Rust of the `.proto` that all programs of the suite serve.

fn main() -> Result<(), tidewire_build::Error> {
    tidewire_build::compile("../protos")
}
