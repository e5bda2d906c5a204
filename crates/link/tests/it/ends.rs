//! How connections end: in good order, by silence, by a bad peer.
