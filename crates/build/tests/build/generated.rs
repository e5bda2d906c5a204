//! What is generated.

#[test]
fn show() {
    let out = std::env::temp_dir().join("tw-gen");
    tidewire_build::Config::new().folder("tests/protos").out_dir(&out).compile().unwrap();
}
