//! Connect, gRPC and gRPC-Web as bytes: the files of the client's half, which it still compiles.
//!
//! They become a room of their own with the half of the server.
