//! Pipelines and graphs as their subcommands run them.

use std::{sync::Arc, time::Duration};

use ovms::{
    client::TensorMetadata,
    engine::Servable,
    graph::{GraphDefinition, GraphPort},
    pipeline::PipelineDefinition,
    servable::TensorInfo,
    tensor::{DataType, PartialShape},
};

/// Name of the datatype of a pipeline's tensor that no node decides.
const OPEN_TYPE: &str = "UNDEFINED";

/// Name of the datatype of a graph's inputs and outputs.
const NO_TYPE: &str = "INVALID";

/// Kind of servable that can run in this process.
pub(crate) trait LocalDefinition: Sized {
    /// Name of the kind, which is the subcommand that checks it as well.
    const KIND: &'static str;

    /// Returns the definition of a servable that is ready, if it is of this kind.
    fn of(servable: Servable) -> Option<Arc<Self>>;

    /// Describes the inputs.
    fn inputs(&self) -> Vec<TensorMetadata>;

    /// Describes the outputs.
    fn outputs(&self) -> Vec<TensorMetadata>;

    /// Returns the time limit of calls of handlers that does not hold at a terminal, if there is one.
    fn waived_timeout(&self) -> Option<Duration>;
}

impl LocalDefinition for PipelineDefinition {
    const KIND: &'static str = "pipeline";

    fn of(servable: Servable) -> Option<Arc<Self>> {
        match servable {
            Servable::Pipeline(pipeline) => pipeline.definition().ok(),
            _ => None,
        }
    }

    fn inputs(&self) -> Vec<TensorMetadata> {
        self.plan.info.inputs.iter().map(tensor).collect()
    }

    fn outputs(&self) -> Vec<TensorMetadata> {
        self.plan.info.outputs.iter().map(tensor).collect()
    }

    fn waived_timeout(&self) -> Option<Duration> {
        self.waived_timeout()
    }
}

impl LocalDefinition for GraphDefinition {
    const KIND: &'static str = "graph";

    fn of(servable: Servable) -> Option<Arc<Self>> {
        match servable {
            Servable::Graph(graph) => graph.definition().ok(),
            _ => None,
        }
    }

    fn inputs(&self) -> Vec<TensorMetadata> {
        self.plan().inputs.iter().map(port).collect()
    }

    fn outputs(&self) -> Vec<TensorMetadata> {
        self.plan().outputs.iter().map(port).collect()
    }

    fn waived_timeout(&self) -> Option<Duration> {
        self.waived_timeout()
    }
}

fn tensor(tensor: &TensorInfo) -> TensorMetadata {
    let datatype = tensor.decided().map_or(OPEN_TYPE, DataType::kserve);
    TensorMetadata {
        name: tensor.name.clone(),
        datatype: datatype.to_owned(),
        shape: tensor.shape.clone(),
    }
}

fn port(port: &GraphPort) -> TensorMetadata {
    TensorMetadata {
        name: port.port.name.clone(),
        datatype: NO_TYPE.to_owned(),
        shape: PartialShape(Vec::new()),
    }
}
