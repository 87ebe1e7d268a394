//! Fake servable with preset responses, and a node run step by step.

use std::sync::Arc;

use futures::{FutureExt, future::BoxFuture};
use parking_lot::Mutex;

use crate::{
    error::{Error, ErrorKind, Result},
    graph::calculators::{
        calculator::{Calculator, CalculatorContext, Emit, Env, Factory, Resources, StepOutcome},
        contract::Contract,
        error::GraphRunError,
        node::NodeSpec,
        packet::{Packet, Payload},
        servables::{ServableSession, Servables},
        timestamp::Timestamp,
    },
    python,
    request::{InferRequest, RequestOrigin},
    servable::{ServableInfo, TensorInfo},
    tensor::{DataType, Dim, Layout, PartialShape, TensorMap},
};

/// Single fake servable, or none.
pub(in crate::graph::calculators::stock) struct Fake {
    info: Option<ServableInfo>,
    inner: Arc<Inner>,
}

#[derive(Default)]
struct Inner {
    asked: Mutex<Vec<(String, Option<i64>)>>,
    requests: Mutex<Vec<InferRequest>>,
    answer: Mutex<Option<Result<TensorMap>>>,
    renewed: Mutex<Option<ServableInfo>>,
}

impl Fake {
    /// Creates a servable with these inputs and outputs.
    pub(in crate::graph::calculators::stock) fn new(
        inputs: &[&str],
        outputs: &[&str],
    ) -> Arc<Self> {
        Arc::new(Self {
            info: Some(info(inputs, outputs)),
            inner: Arc::default(),
        })
    }

    /// Gives the servable other inputs and outputs, as a reload does.
    pub(in crate::graph::calculators::stock) fn renew(&self, inputs: &[&str], outputs: &[&str]) {
        *self.inner.renewed.lock() = Some(info(inputs, outputs));
    }

    /// Creates a fake without a servable.
    pub(in crate::graph::calculators::stock) fn missing() -> Arc<Self> {
        Arc::new(Self {
            info: None,
            inner: Arc::default(),
        })
    }

    /// Sets the response to the next request.
    pub(in crate::graph::calculators::stock) fn answers(&self, answer: Result<TensorMap>) {
        *self.inner.answer.lock() = Some(answer);
    }

    /// Returns the names and versions that were looked up.
    pub(in crate::graph::calculators::stock) fn asked(&self) -> Vec<(String, Option<i64>)> {
        self.inner.asked.lock().clone()
    }

    /// Takes the received requests.
    pub(in crate::graph::calculators::stock) fn requests(&self) -> Vec<InferRequest> {
        std::mem::take(&mut *self.inner.requests.lock())
    }

    /// Returns a session as a side packet.
    pub(in crate::graph::calculators::stock) fn side(self: &Arc<Self>) -> Packet {
        let session = self.session("m", None).expect("there is one");
        Packet::side(Payload::Session(session))
    }
}

fn info(inputs: &[&str], outputs: &[&str]) -> ServableInfo {
    let tensors = |names: &[&str]| names.iter().enumerate().map(tensor).collect();
    ServableInfo::new(tensors(inputs), tensors(outputs))
}

fn tensor((port, name): (usize, &&str)) -> TensorInfo {
    TensorInfo {
        name: (*name).to_owned(),
        dtype: DataType::F32,
        shape: PartialShape(vec![Dim::Any]),
        layout: Layout::unspecified(1),
        is_open: false,
        port,
    }
}

impl Servables for Fake {
    fn session(&self, name: &str, version: Option<i64>) -> Result<Arc<dyn ServableSession>> {
        self.inner.asked.lock().push((name.to_owned(), version));
        let none = || {
            Error::new(
                ErrorKind::NotFound,
                "Model with requested name is not found",
            )
        };
        let info = self.info.clone().ok_or_else(none)?;
        let inner = Arc::clone(&self.inner);
        Ok(Arc::new(Opened { info, inner }))
    }
}

struct Opened {
    info: ServableInfo,
    inner: Arc<Inner>,
}

impl ServableSession for Opened {
    fn info(&self) -> &ServableInfo {
        &self.info
    }

    fn renewed(&self, known: &ServableInfo) -> Option<ServableInfo> {
        let renewed = self.inner.renewed.lock().clone();
        renewed.filter(|info| info != known)
    }

    fn infer(
        &self,
        request: InferRequest,
        _: RequestOrigin,
    ) -> BoxFuture<'static, Result<TensorMap>> {
        self.inner.requests.lock().push(request);
        let answer = self.inner.answer.lock().take();
        let answer = answer.unwrap_or_else(|| Ok(TensorMap::default()));
        async { answer }.boxed()
    }
}

struct NoPython;

impl Resources for NoPython {
    fn python(&self, _: &str) -> Option<python::HandlerInstance> {
        None
    }

    fn hides_python_errors(&self) -> bool {
        false
    }
}

/// Node that runs step by step.
pub(in crate::graph::calculators::stock) struct Run {
    pub(in crate::graph::calculators::stock) contract: Contract,
    node: Arc<NodeSpec>,
    calculator: Box<dyn Calculator>,
    side: Vec<Packet>,
    env: Env,
}

impl Run {
    pub(in crate::graph::calculators::stock) fn new(
        factory: &Factory,
        node: NodeSpec,
        servables: &Arc<Fake>,
    ) -> Self {
        let contract = factory.check(&node).expect("the node keeps the contract");
        let node = Arc::new(node);
        let servables: Arc<dyn Servables> = Arc::clone(servables) as _;
        Self {
            contract,
            calculator: (factory.make)(&node, &NoPython),
            node,
            side: Vec::new(),
            env: Env::new(servables),
        }
    }

    /// Opens the node; returns its output side packets.
    pub(in crate::graph::calculators::stock) fn open(
        &mut self,
        side: Vec<Packet>,
    ) -> Result<Vec<(usize, Packet)>, GraphRunError> {
        self.side = side;
        let emits = self.step(Timestamp::UNSTARTED, &[], |calculator, context| {
            calculator.open(context)
        })?;
        let side = |emit| match emit {
            Emit::Side(place, packet) => (place, packet),
            other => panic!("{other:?} in open"),
        };
        Ok(emits.into_iter().map(side).collect())
    }

    /// Passes the packets of a timestamp to the node; returns its output.
    pub(in crate::graph::calculators::stock) fn process(
        &mut self,
        at: Timestamp,
        inputs: &[Packet],
    ) -> Result<Vec<(usize, Packet)>, GraphRunError> {
        let emits = self.step(at, inputs, |calculator, context| {
            calculator.process(context)
        })?;
        let packet = |emit| match emit {
            Emit::Packet(place, packet) => (place, packet),
            other => panic!("{other:?} in process"),
        };
        Ok(emits.into_iter().map(packet).collect())
    }

    fn step(
        &mut self,
        at: Timestamp,
        inputs: &[Packet],
        step: impl FnOnce(
            &mut dyn Calculator,
            &mut CalculatorContext<'_>,
        ) -> Result<StepOutcome, GraphRunError>,
    ) -> Result<Vec<Emit>, GraphRunError> {
        let bounds = vec![at; inputs.len()];
        let (node, side, env) = (&self.node, &self.side, &self.env);
        let mut context = CalculatorContext {
            node,
            at,
            inputs,
            side,
            env,
            trace: None,
            bounds: &bounds,
            emits: Vec::new(),
        };
        let flow = step(self.calculator.as_mut(), &mut context)?;
        let mut emits = context.emits;
        if let StepOutcome::Later(later) = flow {
            emits.extend(later.now_or_never().expect("it waits for nothing")?.emits);
        }
        Ok(emits)
    }
}
