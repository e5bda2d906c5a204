//! Writes `proto/error_details.binpb` anew, from the `.proto` files beside it.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/proto");
    let compiled = tidewire_schema::Sources::new().folder(folder).compile()?;
    std::fs::write(format!("{folder}/error_details.binpb"), compiled.bytes())?;
    Ok(())
}
