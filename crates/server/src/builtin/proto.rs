//! Messages and services of `grpc.health.v1`, `grpc.reflection.v1` and `grpc.reflection.v1alpha`,
//! generated from the `.proto` files of the folder `proto`.

include!(concat!(env!("OUT_DIR"), "/tidewire.rs"));
