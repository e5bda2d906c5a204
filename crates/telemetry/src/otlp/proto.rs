//! Messages of the folder `proto`.

include!(concat!(env!("OUT_DIR"), "/tidewire.rs"));
