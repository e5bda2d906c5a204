//! Which messages a `google.protobuf.Any` in JSON can hold.
//!
//! The JSON form of an `Any` is the JSON form of the message in it, so encoding one needs to know
//! the message. The messages library keeps one table for the process; generated servers and clients
//! add theirs when they are made, so a program has nothing to do.

use parking_lot::Mutex;

use buffa::type_registry::{TypeRegistry, set_type_registry};

/// A function of generated code that adds the messages of its `.proto` files.
pub type RegisterTypes = fn(&mut TypeRegistry);

static REGISTERED: Mutex<Vec<RegisterTypes>> = Mutex::new(Vec::new());

/// Makes the messages that `register` adds known, beside those of earlier calls.
///
/// A second call with the same function does nothing.
pub fn register_types(register: RegisterTypes) {
    let mut registered = REGISTERED.lock();
    if registered.iter().any(|known| std::ptr::fn_addr_eq(*known, register)) {
        return;
    }
    registered.push(register);
    let mut registry = TypeRegistry::new();
    for register in registered.iter() {
        register(&mut registry);
    }
    set_type_registry(registry);
}
