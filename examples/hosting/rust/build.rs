//! Makes Rust of the `.proto` files; needs no `protoc`.

fn main() -> Result<(), tidewire_build::Error> {
    tidewire_build::compile("../protos")
}
