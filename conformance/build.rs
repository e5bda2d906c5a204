//! Code for the conformance suite's protocol, from the `.proto` files of the pinned suite.

use std::path::Path;

fn main() -> Result<(), tidewire_build::Error> {
    let protos = Path::new("../.tools/conformance-proto");
    println!("cargo:rerun-if-changed={}", protos.display());
    assert!(protos.exists(), "the suite's .proto files are missing; run `make setup` once");
    tidewire_build::compile(protos)
}
