//! Edges of the graph: who depends on a node, and what that list counts for.

use crate::graph::core::Core;
use crate::store::edges::Edges;
use crate::store::node::Header;
use crate::store::slots::Id;

impl Core {
    /// Makes `id` a dependant of `node`.
    pub(crate) fn add_dependant(&mut self, node: &Header, id: Id) {
        let before = node.dependants(&self.slots).heap_bytes();
        node.add_dependant(&mut self.slots, id);
        self.weigh_dependants(node, before);
    }

    /// Takes the list of dependants; whoever walks it marks each of them.
    pub(crate) fn take_dependants(&mut self, node: &Header) -> Edges {
        let taken = node.take_dependants(&mut self.slots, self.tick);
        self.weigh_dependants(node, taken.heap_bytes());
        taken
    }

    /// Follows a list of dependants that had this size on the heap.
    fn weigh_dependants(&mut self, node: &Header, before: usize) {
        let after = node.dependants(&self.slots).heap_bytes();
        if before != after {
            let weight = node.weight.get() as usize;
            self.weigh(self.queue(node), node, (weight + after).saturating_sub(before));
        }
    }
}
