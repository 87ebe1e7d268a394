//! A slot: one OpenVINO infer request with its input tensors.
//!
//! Input bytes are copied once, from the request into the slot's tensor; output bytes once, out of the runtime's tensor.
//! Where they are many, inputs are read where they lie, and the tensor of an output is given away. A slot is used by one request at a time; [`super::pool`] sees to it.
//!
//! A slot of a stateful model has tensors for the variables, too. In mode `requests` it has no infer
//! request: that comes with each run, since each sequence has its own, with its state inside. It uses
//! the tensors that the slot lends it, so that a sequence takes memory for its state, and none for
//! inputs and outputs; unless they are small.

use std::{mem, sync::Arc};

use bytes::Bytes;
use openvino::ElementType;

use super::{
    batch::rows::BatchSlot,
    condition::Condition,
    convert,
    describe::Described,
    ffi::{self, CompiledModel, InferRequest, LentInput, Side},
    leftovers::{Forgetting, Leftovers},
    limit::{Limit, infer_within},
    slot_error::{INFER, SlotError, new_tensor, runtime},
    slot_input::{MIN_IN_PLACE, SlotInput},
    slot_output::Output,
    state::{
        Bound, Kept, Maker, SequenceState, new_set,
        tensors::{SlotStates, StateTensors},
    },
    strings,
};
use crate::{
    error::{Error, chain},
    servable::TensorInfo,
    tensor::{DataType, Dim, Tensor},
};

/// One infer request, or the tensors for one.
pub(super) struct Slot {
    engine: Engine,
    inputs: Vec<Input>,
    pub(super) outputs: Vec<Output>,
    /// Indicates that the tensor of an output is given away.
    gives: bool,
    /// Number that distinguishes the present tensors from those of other slots, and from earlier ones.
    set: u64,
    /// Small tensors for the inputs whose shape varies, which a sequence has between its runs.
    resting: Vec<(usize, ffi::Tensor)>,
    /// Tensors of the variables, if they are inputs and outputs.
    pub(super) states: Option<Box<SlotStates>>,
    /// Infer requests for batches, smallest first.
    pub(super) batches: Vec<BatchSlot>,
    /// Strings of the last run that the slot's own infer request may still have.
    leftovers: Leftovers,
    /// Condition of the compiled model, if steps of sequences may be spoilt by others.
    condition: Option<Arc<Condition>>,
}

/// Source of the infer requests of a slot.
enum Engine {
    /// The slot's own infer request.
    Own(Bound),
    /// Infer requests of the sequences, which the model makes.
    OfSequences(Arc<Maker>),
    /// No source any more: the slot ends.
    Ended,
}

/// The tensor that a request's bytes are copied into, made again when the shape changes.
struct Input {
    dtype: DataType,
    shape: Vec<usize>,
    tensor: Option<ffi::Tensor>,
    /// Indicates that the slot's own infer request has the tensor.
    bound: bool,
    /// The model's own name, of an input without dimensions whose tensor is that of each infer
    /// request, since the C interface makes none.
    scalar: Option<String>,
    /// Indicates that its numbers may be so many that they are read where they lie.
    may_be_large: bool,
}

impl Slot {
    /// Makes an infer request; inputs and outputs are in the model's own order, and before those of
    /// variables.
    pub(super) fn new(
        model: &mut CompiledModel,
        inputs: &[Described],
        outputs: &[Described],
        states: Option<&mut StateTensors>,
    ) -> Result<Self, SlotError> {
        let request = model
            .create_infer_request()
            .map_err(runtime("create an infer request"))?;
        let leftovers = Leftovers::of_model(inputs, outputs);
        let described = inputs;
        let inputs = described
            .iter()
            .map(|described| {
                let mut input = Input::new(described);
                if let Some(own) = input.scalar.take() {
                    let tensor = request.named_tensor(&own);
                    input.tensor = Some(tensor.map_err(runtime("reach an input tensor"))?);
                    input.bound = true;
                }
                Ok(input)
            })
            .collect::<Result<_, SlotError>>()?;
        let outputs = Output::of_request([described, outputs], &request)?;
        let states = states.map(|states| states.of_slot(&request)).transpose()?;
        Ok(Self {
            engine: Engine::Own(Bound::new(request)),
            inputs,
            gives: outputs.iter().any(Output::is_given),
            outputs,
            set: new_set(),
            resting: Vec::new(),
            states: states.map(Box::new),
            batches: Vec::new(),
            leftovers,
            condition: None,
        })
    }

    /// Makes the tensors that infer requests of sequences are lent.
    pub(super) fn lender(
        maker: &Arc<Maker>,
        inputs: &[Described],
        outputs: &[Described],
    ) -> Result<Self, SlotError> {
        let varies = inputs
            .iter()
            .filter(|input| input.info.shape.fixed().is_none());
        let resting = varies.map(|Described { info, .. }| {
            let shape: Vec<usize> = info.shape.0.iter().map(Dim::least).collect();
            let tensor = new_tensor(convert::element_type(info.dtype), &shape)?;
            Ok((info.port, tensor))
        });
        Ok(Self {
            engine: Engine::OfSequences(Arc::clone(maker)),
            inputs: inputs.iter().map(Input::new).collect(),
            outputs: Output::of_lender([inputs, outputs])?,
            gives: false,
            set: new_set(),
            resting: resting.collect::<Result<_, SlotError>>()?,
            states: None,
            batches: Vec::new(),
            leftovers: Leftovers::never(),
            condition: None,
        })
    }

    /// Sets the condition by which steps of sequences are in doubt once an inference of another one has failed.
    pub(super) fn attend(&mut self, condition: &Arc<Condition>) {
        self.condition = Some(Arc::clone(condition));
    }

    /// Fails if what a run has given may be wrong.
    fn doubt(&self) -> Result<(), SlotError> {
        match self.condition.as_ref().is_some_and(|it| it.is_closed()) {
            true => Err(SlotError::Doubtful),
            false => Ok(()),
        }
    }

    /// Runs one inference on the calling thread and returns the wanted outputs, by port, in the
    /// order asked for. A slot of a stateful model runs it on the state given, or on a new one
    /// that is gone afterwards.
    pub(super) fn infer(
        &mut self,
        state: Option<&mut SequenceState>,
        inputs: &[SlotInput],
        wanted: &[usize],
        mut limit: Option<Limit<'_>>,
    ) -> Result<Vec<Tensor>, SlotError> {
        let (Some(states), Engine::Own(own)) = (&mut self.states, &mut self.engine) else {
            let outputs = self.run(state, inputs, wanted, limit)?;
            self.doubt()?;
            return Ok(outputs);
        };
        let mut passing = SequenceState::default();
        let state = state.unwrap_or(&mut passing);
        let mut new = None;
        let values = match state.values() {
            Some(values) => values,
            None => new.insert(states.initial(inputs, limit.as_mut())?),
        };
        states.give(&mut own.request, values)?;
        let outputs = self.run(None, inputs, wanted, limit)?;
        self.doubt()?;
        if let Some(states) = &mut self.states {
            states.take(values)?;
        }
        if let Some(values) = new {
            *state = SequenceState::of(values);
        }
        Ok(outputs)
    }

    /// Writes the bytes of an input into its tensor, which is made again for another shape.
    pub(super) fn write_input(
        &mut self,
        port: usize,
        shape: &[usize],
        write: impl FnOnce(&mut [u8]) -> Result<(), SlotError>,
    ) -> Result<(), SlotError> {
        let input = self.inputs.get_mut(port).ok_or_else(|| no_port(port))?;
        let target = input.shaped(shape)?.get_raw_data_mut();
        write(target.map_err(runtime("reach an input tensor"))?)
    }

    /// Runs an inference on inputs that have been written.
    pub(super) fn infer_written(&mut self) -> Result<(), SlotError> {
        let Engine::Own(Bound { request, .. }) = &mut self.engine else {
            return Err(other_mode());
        };
        for (port, input) in self.inputs.iter_mut().enumerate() {
            input.bind(request, port)?;
        }
        request.infer().map_err(runtime(INFER))
    }

    /// Reads an output of numbers in place: its type, shape, and bytes.
    pub(super) fn read_output(
        &self,
        port: usize,
        read: impl FnOnce(DataType, &[usize], &[u8]) -> Result<(), SlotError>,
    ) -> Result<(), SlotError> {
        let output = self.outputs.get(port).ok_or_else(|| no_port(port))?;
        let Engine::Own(Bound { request, .. }) = &self.engine else {
            return Err(other_mode());
        };
        output.read_in_place(request, port, read)
    }

    fn run(
        &mut self,
        state: Option<&mut SequenceState>,
        inputs: &[SlotInput],
        wanted: &[usize],
        mut limit: Option<Limit<'_>>,
    ) -> Result<Vec<Tensor>, SlotError> {
        if self.leftovers.are_due(|| self.is_reshaped_by(inputs)) {
            self.forget_strings(Forgetting::Between(limit.as_mut()))?;
        }
        let mut passing = SequenceState::default();
        let (bound, lends) = match &mut self.engine {
            Engine::Own(own) => (own, false),
            Engine::OfSequences(maker) => match maker.kept(state.unwrap_or(&mut passing))? {
                Kept::Owning(slot) => return slot.infer(None, inputs, wanted, limit),
                Kept::Borrowing(bound) => (bound, true),
                Kept::Values(_) => return Err(other_mode()),
            },
            Engine::Ended => return Err(other_mode()),
        };
        let request = &mut bound.request;
        let mut renewed = false;
        let mut is_any_in_place = false;
        for given in inputs {
            let input = self.inputs.get_mut(given.port);
            let input = input.ok_or_else(|| no_port(given.port))?;
            if let Some(own) = &input.scalar {
                let mut tensor = request
                    .named_tensor(own)
                    .map_err(runtime("reach an input tensor"))?;
                fill(input.dtype, &mut tensor, given)?;
                continue;
            }
            renewed |= match input.may_be_large && !lends && input.in_place(given).is_some() {
                false => input.write(given)?,
                true => {
                    is_any_in_place = true;
                    input.prepare(&given.shape)?
                }
            };
        }
        if renewed {
            self.set = new_set();
        }
        if bound.set != self.set {
            for (port, input) in self.inputs.iter_mut().enumerate() {
                input.bound &= !lends;
                input.bind(request, port)?;
            }
            if lends {
                for (port, output) in self.outputs.iter().enumerate() {
                    output.lend(request, port)?;
                }
            }
            bound.set = self.set;
        }
        self.leftovers.begin();
        let (own, gives) = (&mut self.outputs, self.gives);
        let mut read = |request: &mut InferRequest| match gives {
            false => wanted
                .iter()
                .map(|&port| {
                    let output = own.get(port).ok_or_else(|| no_port(port))?;
                    output.read(request, port)
                })
                .collect(),
            true => take(own, wanted, request),
        };
        let outputs = if is_any_in_place {
            infer_in_place(&self.inputs, inputs, request, limit, read)?
        } else {
            match limit {
                None => request.infer().map_err(runtime(INFER))?,
                Some(limit) => infer_within(request, limit)?,
            }
            read(request)
        };
        self.leftovers.end();
        if lends && !self.resting.is_empty() {
            // The slot makes other tensors for other shapes; the sequence would keep these.
            for (port, tensor) in &self.resting {
                request
                    .set_tensor(Side::Input, *port, tensor)
                    .map_err(runtime("take an input tensor back"))?;
            }
            bound.set = 0;
        }
        outputs
    }

    /// Returns whether a run on inputs gives any of them another shape.
    fn is_reshaped_by(&self, inputs: &[SlotInput]) -> bool {
        let mut pairs = inputs
            .iter()
            .filter_map(|given| Some((given, self.inputs.get(given.port)?)));
        pairs.any(|(given, input)| input.shape != given.shape)
    }

    /// Makes the slot's own infer request forget the strings of its last run ([`Leftovers`]).
    fn forget_strings(&mut self, when: Forgetting<'_, '_>) -> Result<(), SlotError> {
        let Engine::Own(Bound { request, set }) = &mut self.engine else {
            return Ok(());
        };
        if !self.leftovers.is_any() {
            return Ok(());
        }
        let at_end = matches!(when, Forgetting::AtEnd);
        for (port, input) in self.inputs.iter_mut().enumerate() {
            match &mut input.tensor {
                Some(_) if input.dtype != DataType::String => {}
                // Shapes without dimensions do not change.
                Some(tensor) if input.shape.is_empty() && at_end => strings::hollow(tensor)?,
                Some(_) if !input.shape.is_empty() => {
                    let mut hollow = new_tensor(ElementType::String, &input.shape)?;
                    strings::hollow(&mut hollow)?;
                    request
                        .set_tensor(Side::Input, port, &hollow)
                        .map_err(runtime("set an input tensor"))?;
                    input.tensor = None;
                    input.bound = false;
                }
                _ => {}
            }
        }
        *set = 0;
        let ended = when.infer(request);
        self.leftovers.forgotten(ended)
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        if let Err(error) = self.forget_strings(Forgetting::AtEnd) {
            tracing::warn!(
                "the memory of an infer request for strings is kept until the server ends, since it cannot be freed \
                 safely: {}",
                chain(&error)
            );
            if let Engine::Own(own) = mem::replace(&mut self.engine, Engine::Ended) {
                mem::forget(own.request);
            }
        }
    }
}

impl Input {
    fn new(Described { info, own, .. }: &Described) -> Self {
        let scalar = info.shape.fixed().is_some_and(|shape| shape.is_empty());
        Self {
            dtype: info.dtype,
            shape: Vec::new(),
            tensor: None,
            bound: false,
            scalar: scalar.then(|| own.clone()),
            may_be_large: is_large(info),
        }
    }

    /// Returns the tensor, which is a new one if it had another shape.
    fn shaped(&mut self, shape: &[usize]) -> Result<&mut ffi::Tensor, SlotError> {
        if self.shape != shape {
            self.tensor = None;
        }
        let tensor = match self.tensor.take() {
            Some(tensor) => tensor,
            None => {
                let tensor = new_tensor(convert::element_type(self.dtype), shape)?;
                self.shape = shape.to_vec();
                self.bound = false;
                tensor
            }
        };
        Ok(self.tensor.insert(tensor))
    }

    /// Returns the bytes of an input that is read where it lies.
    fn in_place<'a>(&self, given: &'a SlotInput) -> Option<&'a Bytes> {
        given.data.in_place(|| self.dtype.size())
    }

    /// Makes a tensor for an infer request that is to have one when the input lies elsewhere; returns whether it is a
    /// new one.
    fn prepare(&mut self, shape: &[usize]) -> Result<bool, SlotError> {
        if self.tensor.is_none() {
            self.shaped(shape)?;
        }
        Ok(!self.bound)
    }

    /// Gives the tensor to an infer request that does not have it.
    fn bind(&mut self, request: &mut InferRequest, port: usize) -> Result<(), SlotError> {
        if let (Some(tensor), false) = (&self.tensor, self.bound) {
            let set = request.set_tensor(Side::Input, port, tensor);
            set.map_err(runtime("set an input tensor"))?;
            self.bound = true;
        }
        Ok(())
    }

    /// Copies a request's bytes into the tensor; returns whether the tensor is a new one.
    fn write(&mut self, given: &SlotInput) -> Result<bool, SlotError> {
        let dtype = self.dtype;
        fill(dtype, self.shaped(&given.shape)?, given)?;
        Ok(!self.bound)
    }
}

/// Copies a request's bytes into a tensor of the same shape.
fn fill(dtype: DataType, tensor: &mut ffi::Tensor, given: &SlotInput) -> Result<(), SlotError> {
    if dtype == DataType::String {
        return Ok(strings::write(tensor, given.data.as_bytes()?)?);
    }
    let actual = given.data.size();
    if actual == 0 {
        // The runtime may have no memory at all for a tensor without elements.
        return Ok(());
    }
    let target = tensor
        .get_raw_data_mut()
        .map_err(runtime("reach an input tensor"))?;
    if target.len() != actual {
        let (port, expected) = (given.port, target.len());
        let text = format!("input {port} has {actual} bytes and the tensor {expected}");
        return Err(Error::internal(text).into());
    }
    given.data.copy_to(target)
}

/// Returns whether a tensor is of numbers that may take as many bytes as are read where they lie.
fn is_large(info: &TensorInfo) -> bool {
    info.dtype.size().is_some_and(|width| {
        let shape = info.shape.fixed();
        let bytes = |shape: Vec<usize>| shape.into_iter().fold(width, usize::saturating_mul);
        shape.is_none_or(|shape| bytes(shape) >= MIN_IN_PLACE)
    })
}

/// Runs an inference some of whose inputs are read where they lie, and reads the outputs, one of which may be such an
/// input: where a model passes an input on, the runtime has one tensor for both.
#[cold]
fn infer_in_place<R>(
    own: &[Input],
    inputs: &[SlotInput],
    request: &mut InferRequest,
    limit: Option<Limit<'_>>,
    read: impl FnOnce(&mut InferRequest) -> R,
) -> Result<R, SlotError> {
    let lent = inputs.iter().filter_map(|given| {
        let input = own.get(given.port)?;
        Some(LentInput {
            index: given.port,
            element: convert::element_type(input.dtype),
            shape: &given.shape,
            bytes: input.in_place(given)?,
            own: input.tensor.as_ref()?,
        })
    });
    let lent: Vec<LentInput<'_>> = lent.collect();
    let ran = request.lend(&lent, |request| {
        match limit {
            None => request.infer().map_err(runtime(INFER))?,
            Some(limit) => infer_within(request, limit)?,
        }
        Ok(read(request))
    });
    ran.map_err(runtime("set an input tensor"))?
}

/// Takes outputs some of whose tensors are given away.
#[cold]
fn take(
    outputs: &mut [Output],
    wanted: &[usize],
    request: &mut InferRequest,
) -> Result<Vec<Tensor>, SlotError> {
    let wanted_later = |place: usize, port| wanted[place + 1..].contains(&port);
    let taken = wanted.iter().enumerate().map(|(place, &port)| {
        let output = outputs.get_mut(port).ok_or_else(|| no_port(port))?;
        match wanted_later(place, port) {
            true => output.read(request, port),
            false => output.take(request, port),
        }
    });
    taken.collect()
}

/// Returns the error of a state from another instance of the model.
fn other_mode() -> SlotError {
    Error::internal("the state of the sequence is of another state_mode").into()
}

/// Returns the error of a request that was checked against another model.
fn no_port(port: usize) -> SlotError {
    Error::internal(format!("the model has no input or output {port}")).into()
}
