//! The messages that errors carry by custom, `google.rpc.BadRequest` and others, for schemas that
//! do not import them.

use std::sync::OnceLock;

use tidewire_schema::Schema;

/// `google/rpc/error_details.proto`, compiled: `proto/README.md` says how, and a test that it is
/// what the `.proto` says.
const DESCRIPTORS: &[u8] = include_bytes!("../../proto/error_details.binpb");

/// The schema of the messages that errors carry by custom: `google.rpc.BadRequest` and others.
pub fn error_details() -> &'static Schema {
    static SCHEMA: OnceLock<Schema> = OnceLock::new();
    SCHEMA.get_or_init(|| {
        Schema::from_descriptors(DESCRIPTORS).expect("a test compiles and reads these descriptors")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_descriptors_are_those_of_the_proto() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/proto");
        let sources = tidewire_schema::Sources::new().folder(folder);
        let compiled = sources.compile().unwrap().bytes();
        assert_eq!(compiled, DESCRIPTORS, "write them anew: see crates/mock/proto/README.md");
        assert!(error_details().message_type("google.rpc.BadRequest").is_some());
    }
}
