//! Makes Rust of the `.proto` file; needs no `protoc`.

fn main() -> Result<(), tidewire_build::Error> {
    tidewire_build::compile("proto")
}
