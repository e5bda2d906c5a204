//! Makes Rust of this example's `.proto` and of that of the contacts, which it asks.

fn main() -> Result<(), tidewire_build::Error> {
    tidewire_build::Config::new()
        .folder("proto")
        .include("../contacts/proto")
        .file("contacts/v1/contacts.proto")
        .compile()
}
