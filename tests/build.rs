//! Code for the test service.

fn main() -> Result<(), tidewire_build::Error> {
    tidewire_build::compile("proto")
}
