//! The messages of methods.
//!
//! A name is looked up from the method outwards, and of the first scope that has it something is
//! found, whatever that is. So a method hides a message of the same name from every method of the
//! service.

use prost_reflect::prost_types::ServiceDescriptorProto;

use super::findings::Rules;
use super::path::{self, step};

/// Refuses types of requests and replies that are names of methods of the service.
pub(super) fn check(rules: &mut Rules<'_>, index: usize, written: &ServiceDescriptorProto) {
    for (place, method) in written.method.iter().enumerate() {
        let at = [path::FILE_SERVICE, step(index), path::SERVICE_METHOD, step(place)];
        for (part, name) in
            [(path::METHOD_INPUT, method.input_type()), (path::METHOD_OUTPUT, method.output_type())]
        {
            if written.method.iter().any(|method| method.name() == name) {
                let message =
                    format!("'{name}' is not a message type: here it is the method of that name");
                let help = "write the name with its package, or rename the method";
                rules.refuse(&at, part, message, help);
            }
        }
    }
}
