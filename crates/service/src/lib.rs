//! What a call, an answer and a service are.
