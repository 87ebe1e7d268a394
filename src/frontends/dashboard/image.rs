//! Drawings of pipelines and graphs, made when somebody wants to see one, and kept.
//!
//! They are those of `ovms pipeline show` and `ovms graph show`. A layout may take long, so that there
//! is one at a time, on a thread for work that blocks.

use std::sync::Arc;

use parking_lot::Mutex;

use crate::{
    draw::{self, Diagram, DiagramKind},
    engine::Servable,
    error::{Error, ErrorKind, Result},
    task,
};

/// Maximum number of nodes of what is drawn: nobody finds anything in more, and they take long.
const MAX_NODES: usize = 400;

/// Maximum number of lines between them.
const MAX_EDGES: usize = 2000;

/// Maximum number of drawings that are kept.
const MAX_KEPT: usize = 64;

/// The drawings that were made.
#[derive(Default)]
pub(super) struct Images {
    /// The one asked for last is the last.
    kept: Mutex<Vec<Image>>,
    /// Held until the drawing is made, even if the client has left meanwhile.
    turn: Arc<tokio::sync::Mutex<()>>,
}

struct Image {
    name: String,
    of: Arc<Diagram>,
    svg: Arc<str>,
}

impl Images {
    /// Draws a servable, or finds its drawing.
    ///
    /// # Errors
    ///
    /// Fails if there is nothing to draw, or too much.
    pub(super) async fn of(self: &Arc<Self>, servable: Servable) -> Result<Arc<str>> {
        let turn = Arc::clone(&self.turn).lock_owned().await;
        let this = Arc::clone(self);
        let draw = move || {
            let drawn = this.draw(&servable);
            drop(turn);
            drawn
        };
        task::blocking("draw", draw).await
    }

    fn draw(&self, servable: &Servable) -> Result<Arc<str>> {
        let of = diagram(servable)?;
        validate(&of)?;
        if let Some(svg) = self.find(servable.name(), &of) {
            return Ok(svg);
        }
        let svg: Arc<str> = draw::svg_with_times(&of).into();
        self.keep(Image {
            name: servable.name().to_owned(),
            of,
            svg: Arc::clone(&svg),
        });
        Ok(svg)
    }

    fn find(&self, name: &str, of: &Diagram) -> Option<Arc<str>> {
        let mut kept = self.kept.lock();
        let place = kept
            .iter()
            .position(|it| it.name == name && *it.of == *of)?;
        let found = kept.remove(place);
        let svg = Arc::clone(&found.svg);
        kept.push(found);
        Some(svg)
    }

    fn keep(&self, image: Image) {
        let mut kept = self.kept.lock();
        kept.retain(|it| it.name != image.name);
        if kept.len() >= MAX_KEPT {
            kept.remove(0);
        }
        kept.push(image);
    }
}

fn diagram(servable: &Servable) -> Result<Arc<Diagram>> {
    let found = match servable {
        Servable::Model(_) => None,
        Servable::Pipeline(pipeline) => pipeline.diagram(),
        Servable::Graph(graph) => graph.diagram().map(Arc::new),
    };
    found.ok_or_else(|| {
        let name = servable.name();
        let text = format!("There is no drawing of {name} - it is a model, or not loaded yet");
        Error::new(ErrorKind::NotFound, text)
    })
}

/// Refuses what is too large.
fn validate(diagram: &Diagram) -> Result<()> {
    let (nodes, edges) = (diagram.inner().len(), diagram.edges.len());
    if nodes <= MAX_NODES && edges <= MAX_EDGES {
        return Ok(());
    }
    let command = match diagram.kind {
        DiagramKind::Pipeline => "pipeline",
        DiagramKind::Graph => "graph",
    };
    Err(Error::new(
        ErrorKind::NotFound,
        format!(
            "There is no drawing - {nodes} nodes and {edges} connections are more than are \
             drawn here; ovms {command} show --format dot has them"
        ),
    ))
}
