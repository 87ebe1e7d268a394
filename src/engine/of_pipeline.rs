//! A request to a pipeline.

use std::{
    borrow::Cow,
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::sync::OwnedSemaphorePermit;

use super::engine::Engine;
use crate::{
    error::{Error, Result},
    metrics::{RequestRecord, Times},
    openvino::{SlotInput, Work},
    pipeline::{
        self, DecodingTrace, Pipeline, PipelineDefinition, PipelinePlan, PipelineWatch, Trace,
    },
    request::{Declared, InferRequest, InferResponse, RequestOrigin},
    servable::ServableInfo,
    task,
    tensor::{DataType, Dim, Layout, Tensor, TensorMap, strings},
};

/// A pipeline found for a request.
pub(super) struct OfPipeline {
    pub(super) engine: Arc<Engine>,
    pub(super) pipeline: Arc<Pipeline>,
    pub(super) definition: Arc<PipelineDefinition>,
    pub(super) origin: RequestOrigin,
    /// Trace of the nodes, if somebody wants one.
    pub(super) trace: Option<Arc<Trace>>,
    /// The place of the request among those in flight.
    pub(super) _admitted: OwnedSemaphorePermit,
}

impl OfPipeline {
    pub(super) fn info(&self) -> &ServableInfo {
        &self.definition.plan.info
    }

    pub(super) async fn infer(
        &self,
        id: String,
        request: InferRequest,
        call: &RequestRecord,
    ) -> Result<InferResponse> {
        if !self.definition.is_inline() {
            task::in_own_task().await;
        }
        let info = self.asked(&request);
        // In a box, so that requests without a trace do not carry room for it.
        let decoding = self.trace.as_ref().and_then(|trace| {
            let decoding = DecodingTrace::begin(&info, &request)?;
            Some(Box::new((trace, decoding)))
        });
        let Work { inputs, wanted } = self
            .pipeline
            .decoding
            .validate(&info, request, call)
            .await?;
        let inputs = tensors(&info, inputs)?;
        if let Some((trace, decoding)) = decoding.map(|it| *it) {
            trace.decoded(decoding);
        }
        let models = |name: &str, version| {
            let version = self.engine.model(name)?.version(version)?;
            let loaded = version.loaded()?;
            Ok((version, loaded))
        };
        let begun = Instant::now();
        let watch = PipelineWatch {
            trace: self.trace.as_deref(),
            spans: call.traced(),
            owner: call.owner(),
            budget: call.budget(self.pipeline.decoding.budget()),
        };
        let ran = self.definition.run(models, inputs, self.origin, watch);
        let tensors = Box::pin(ran).await?;
        let ran = Instant::now();
        // To those who ask for statistics, all of it is one run.
        call.reporter().ran(&Times {
            prepared: call.elapsed(begun),
            waited: Duration::ZERO,
            started: begun,
            ended: ran,
            rows: 1,
            batch: 0,
        });
        let plan = &self.definition.plan;
        let names = &plan.nodes[plan.exit()].inputs;
        let outputs = wanted
            .into_iter()
            .map(|port| (names[port].name.clone(), tensors[port].clone()))
            .collect::<TensorMap>();
        // Names that end with `_string` are rows of bytes within, and strings outside, as with models.
        let outputs = match strings::rows_size(&outputs) {
            0 => outputs,
            rows => task::sized("unpad strings", rows, || strings::unpad_all(outputs))
                .await
                .map_err(|error| {
                    Error::internal("Internal serialization error").with_source(error)
                })?,
        };
        call.answered(ran);
        Ok(InferResponse {
            model_name: self.pipeline.name().to_owned(),
            model_version: pipeline::VERSION,
            id,
            outputs,
            ..InferResponse::default()
        })
    }

    /// Returns inputs and outputs, with the types and shapes that the request has itself where no
    /// node decides them. Of a shape, the number of parts is decided if the request is split.
    fn asked(&self, request: &InferRequest) -> Cow<'_, ServableInfo> {
        let plan = &self.definition.plan;
        if !plan.info.inputs.iter().any(|input| input.is_open) {
            return Cow::Borrowed(&plan.info);
        }
        let mut info = plan.info.clone();
        let decided = usize::from(plan.nodes[PipelinePlan::ENTRY].opens.is_some());
        for input in info.inputs.iter_mut().filter(|input| input.is_open) {
            let mut given = request.inputs.iter();
            let Some(given) = given.find(|given| given.name == input.name) else {
                continue;
            };
            if let Declared::Known(dtype) = given.datatype {
                input.dtype = dtype;
            }
            let is_undecided = input.shape.0.len() == decided;
            let lengths = given.shape.iter().map(|&length| usize::try_from(length));
            if is_undecided && let Ok(lengths) = lengths.collect::<Result<Vec<usize>, _>>() {
                let rest = lengths.into_iter().skip(decided).map(Dim::Fixed);
                input.shape.0.extend(rest);
                input.layout = Layout::unspecified(input.shape.0.len());
            }
        }
        Cow::Owned(info)
    }
}

/// Makes tensors of validated inputs, in the order of the pipeline's inputs in the file.
fn tensors(info: &ServableInfo, mut inputs: Vec<SlotInput>) -> Result<Vec<Tensor>> {
    inputs.sort_by_key(|input| input.port);
    let dtype = |port: usize| -> DataType {
        let known = info.inputs.iter().find(|input| input.port == port);
        known.map_or(DataType::U8, |input| input.dtype)
    };
    let tensor = |SlotInput { port, shape, data }| {
        Tensor::new(dtype(port), shape, data.bytes()?)
            .map_err(|error| Error::invalid(format!("Invalid content size - {error}")))
    };
    inputs.into_iter().map(tensor).collect()
}
