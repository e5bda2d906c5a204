//! Connections that end at any byte.
