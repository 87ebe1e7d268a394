//! Ports of a model that are given back to the runtime.
//!
//! The `openvino` crate's `Node` is never freed. A port keeps its model alive, with its weights and
//! the file that they are mapped from, so each load would stay in memory for as long as the
//! process does. The crate is pinned to one release for that.

use std::ops::Deref;

use openvino::Node;
use openvino_sys::{ov_output_const_port_free, ov_output_const_port_t};

/// Layout assumptions of the drop.
const _: () = assert!(
    size_of::<Node>() == size_of::<*mut ov_output_const_port_t>()
        && align_of::<Node>() == align_of::<*mut ov_output_const_port_t>()
        && !std::mem::needs_drop::<Node>()
);

/// A port that is freed when dropped.
pub(super) struct Owned(Node);

impl From<Node> for Owned {
    fn from(node: Node) -> Self {
        Self(node)
    }
}

impl Deref for Owned {
    type Target = Node;

    fn deref(&self) -> &Node {
        &self.0
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        // SAFETY: in the pinned release `Node` has one field, the pointer that the runtime gave for
        // this port; size and alignment are asserted above. `Node` itself frees nothing, as is
        // asserted, too, so this is the only time; nobody has the node after it.
        unsafe {
            let port = (&raw const self.0)
                .cast::<*mut ov_output_const_port_t>()
                .read();
            ov_output_const_port_free(port);
        }
    }
}
