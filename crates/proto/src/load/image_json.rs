//! Images of buf as JSON, `buf build -o image.json`: the same descriptor set in another form.
//!
//! Options are extensions, and what an extension is stands in the image itself. So it is read
//! twice: first without extensions, for the types of its files, and then as a whole by those types.

use prost_reflect::prost::Message as _;
use prost_reflect::prost_types::{FileDescriptorProto, FileDescriptorSet};
use prost_reflect::{DescriptorPool, DeserializeOptions, DynamicMessage};
use serde_json::Value as Json;

use crate::builtin;

/// The descriptor set in protobuf.
///
/// # Errors
/// What is wrong with the JSON.
pub(crate) fn to_protobuf(json: &[u8]) -> Result<Vec<u8>, String> {
    let whole: Json = serde_json::from_slice(json).map_err(|why| format!("not JSON: {why}"))?;
    if !whole["file"].is_array() {
        return Err("not an image of buf: there is no list `file` in it".to_owned());
    }
    let mut bare = whole.clone();
    remove_extensions(&mut bare);
    let known = well_known()?;
    let bare: FileDescriptorSet =
        read(&known, &bare)?.transcode_to().map_err(|why| why.to_string())?;
    let pool = pool_of(bare).map_err(|why| format!("not an image of buf: {why}"))?;
    // Without the file of options there are no extensions of them.
    let pool = match pool.get_message_by_name(SET) {
        Some(_) => pool,
        None => known,
    };
    Ok(read(&pool, &whole)?.encode_to_vec())
}

/// The file that says what a descriptor set is.
fn well_known() -> Result<DescriptorPool, String> {
    let file =
        builtin::well_known("google/protobuf/descriptor.proto").map(FileDescriptorProto::from);
    let mut pool = DescriptorPool::new();
    pool.add_file_descriptor_protos(file).map_err(|why| why.to_string())?;
    Ok(pool)
}

/// The types of all files; one of an edition is shown as proto2, which has the same types.
fn pool_of(set: FileDescriptorSet) -> Result<DescriptorPool, prost_reflect::DescriptorError> {
    let files = set.file.into_iter().map(|mut file| {
        if file.syntax() == "editions" {
            file.syntax = None;
        }
        file
    });
    let mut pool = DescriptorPool::new();
    pool.add_file_descriptor_protos(files)?;
    Ok(pool)
}

fn read(pool: &DescriptorPool, json: &Json) -> Result<DynamicMessage, String> {
    let set = pool.get_message_by_name(SET).ok_or("descriptor sets are not known")?;
    // What only buf says of a file.
    let options = DeserializeOptions::new().deny_unknown_fields(false);
    DynamicMessage::deserialize_with_options(set, json, &options)
        .map_err(|why| format!("not an image of buf: {why}"))
}

fn remove_extensions(json: &mut Json) {
    match json {
        Json::Object(members) => {
            members.retain(|name, _| !name.starts_with('['));
            members.values_mut().for_each(remove_extensions);
        }
        Json::Array(items) => items.iter_mut().for_each(remove_extensions),
        _ => {}
    }
}

const SET: &str = "google.protobuf.FileDescriptorSet";
