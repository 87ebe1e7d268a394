//! Diagrams of pipelines, and of [`graphs`]: from an [`Outline`](crate::pipeline::PipelineOutline) to text
//! in several formats.
//!
//! [`text()`] and [`svg()`] share one layout, made in columns and lines: `graph.rs` says what is drawn,
//! `rows.rs` which boxes stand in a row, `layers.rs` where links pass other boxes and what fits
//! (`layers/cell.rs`), `order.rs` and `place.rs` in which order and columns, `route.rs` how lines run
//! between two rows, and `scene.rs` puts it together. [`dot()`] and [`mermaid()`] leave the layout to
//! others, [`json()`] has none. Names are untrusted text everywhere.

mod canvas;
mod dot;
mod escape;
mod graph;
pub mod graphs;
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

pub use dot::dot;
pub use escape::xml;
pub use html::html;
pub use json::{PipelineDiagram, json};
pub use mermaid::mermaid;
pub use svg::{STYLE, svg};
pub use text::{Style, WIDTH, text};

#[cfg(test)]
mod tests;
