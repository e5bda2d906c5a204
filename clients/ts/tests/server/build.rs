//! Code for the service of the notes.

fn main() -> Result<(), tidewire_build::Error> {
    tidewire_build::compile("proto")
}
