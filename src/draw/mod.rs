//! Diagrams of pipelines and graphs: from a [`Diagram`] to text in several formats.
//!
//! [`text()`] and [`svg()`] share one layout, made in columns and lines: `drawing.rs` says what is drawn,
//! `rows.rs` which boxes stand in a row, `layers.rs` where links pass other boxes and what fits
//! (`layers/cell.rs`), `order.rs` and `place.rs` in which order and columns, `route.rs` how lines run
//! between two rows, and `scene.rs` puts it together. [`dot()`] and [`mermaid()`] leave the layout to
//! others, and serializing a diagram (`json.rs`) needs none. Names are untrusted text everywhere.
//!
//! Edges are arrows; those of side packets are dashed. Back edges are arrows where a format has a
//! layout of its own; in the others a box says where they come from.

mod canvas;
mod diagram;
mod dot;
mod drawing;
pub(crate) mod escape;
mod html;
mod json;
mod labels;
mod layers;
mod mermaid;
mod order;
mod place;
mod route;
mod rows;
mod scene;
mod svg;
mod text;

pub use diagram::{
    Diagram, DiagramEdge, DiagramKind, DiagramLevel, DiagramNode, DiagramNodeKind, DiagramPort,
    DiagramStream, EdgeContent, EdgeSource, Missing, StreamKind, TensorType,
};
pub use dot::dot;
pub use html::html;
pub use mermaid::mermaid;
pub use svg::{STYLE, svg, svg_with_times};
pub use text::{Style, WIDTH, text};

#[cfg(test)]
pub(crate) mod tests {
    pub(crate) mod trace;
}
