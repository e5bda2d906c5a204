//! Messages, services and clients of `tidewire.admin.v1`, generated from the folder `proto`.

include!(concat!(env!("OUT_DIR"), "/tidewire.rs"));
