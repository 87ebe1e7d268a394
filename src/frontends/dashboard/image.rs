//! Drawings of pipelines and graphs, made when somebody wants to see one, and kept.
//!
//! They are those of `ovms pipeline show` and `ovms graph show`. A layout may take long, so that there
//! is one at a time, on a thread for work that blocks.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Semaphore;

use crate::{
    draw,
    engine::Servable,
    error::{Error, ErrorKind, Result},
    graph, pipeline, task,
};

/// The most nodes of what is drawn: nobody finds anything in more, and they take long.
const MAX_NODES: usize = 400;

/// The most lines between them.
const MAX_EDGES: usize = 2000;

/// The most drawings that are kept.
const MAX_KEPT: usize = 64;

/// The drawings that were made.
pub(super) struct Images {
    /// The one asked for last is the last.
    kept: Mutex<Vec<Image>>,
    /// Held until the drawing is made, even if the client has left meanwhile.
    turn: Arc<Semaphore>,
}

struct Image {
    name: String,
    of: Outline,
    svg: Arc<str>,
}

/// Outline to draw.
#[derive(PartialEq, Eq)]
enum Outline {
    Pipeline(Arc<pipeline::PipelineOutline>),
    Graph(graph::GraphOutline),
}

impl Default for Images {
    fn default() -> Self {
        Self {
            kept: Mutex::default(),
            turn: Arc::new(Semaphore::new(1)),
        }
    }
}

impl Images {
    /// Draws a servable, or finds its drawing.
    ///
    /// # Errors
    ///
    /// Fails if there is nothing to draw, or too much.
    pub(super) async fn of(self: &Arc<Self>, servable: Servable) -> Result<Arc<str>> {
        let Ok(turn) = Arc::clone(&self.turn).acquire_owned().await else {
            // It is never closed.
            return Err(Error::internal("Internal server error"));
        };
        let this = Arc::clone(self);
        let draw = move || {
            let drawn = this.draw(&servable);
            drop(turn);
            drawn
        };
        task::blocking("draw", draw).await
    }

    fn draw(&self, servable: &Servable) -> Result<Arc<str>> {
        let of = Outline::of(servable)?;
        of.validate()?;
        if let Some(svg) = self.find(servable.name(), &of) {
            return Ok(svg);
        }
        let svg: Arc<str> = of.draw().into();
        self.keep(Image {
            name: servable.name().to_owned(),
            of,
            svg: Arc::clone(&svg),
        });
        Ok(svg)
    }

    fn find(&self, name: &str, of: &Outline) -> Option<Arc<str>> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let place = kept.iter().position(|it| it.name == name && it.of == *of)?;
        let found = kept.remove(place);
        let svg = Arc::clone(&found.svg);
        kept.push(found);
        Some(svg)
    }

    fn keep(&self, image: Image) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.retain(|it| it.name != image.name);
        if kept.len() >= MAX_KEPT {
            kept.remove(0);
        }
        kept.push(image);
    }
}

impl Outline {
    fn of(servable: &Servable) -> Result<Self> {
        let none = || {
            let name = servable.name();
            let text = format!("There is no drawing of {name} - it is a model, or not loaded yet");
            Error::new(ErrorKind::NotFound, text)
        };
        match servable {
            Servable::Model(_) => Err(none()),
            Servable::Pipeline(pipeline) => pipeline.outline().map(Self::Pipeline).ok_or_else(none),
            Servable::Graph(graph) => graph.outline().map(Self::Graph).ok_or_else(none),
        }
    }

    /// Refuses what is too large.
    fn validate(&self) -> Result<()> {
        let (nodes, edges, command) = match self {
            Self::Pipeline(it) => (it.nodes.len(), it.edges.len(), "pipeline"),
            Self::Graph(it) => (it.nodes.len(), it.edges.len(), "graph"),
        };
        if nodes <= MAX_NODES && edges <= MAX_EDGES {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::NotFound,
            format!(
                "There is no drawing - {nodes} nodes and {edges} connections are more than are \
                 drawn here; ovms {command} show --format dot has them"
            ),
        ))
    }

    fn draw(&self) -> String {
        match self {
            Self::Pipeline(outline) => draw::svg(outline),
            Self::Graph(outline) => draw::graphs::svg(outline),
        }
    }
}
