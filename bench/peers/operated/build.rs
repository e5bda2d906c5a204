//! The service of `hello.proto`, which the peers of `overhead` have too.

fn main() -> Result<(), tidewire_build::Error> {
    tidewire_build::compile("../overhead/proto")
}
