//! States as tensors: the variables of a model are inputs and outputs of the compiled one, behind
//! those that clients see, and a sequence has their contents.
//!
//! A small variable is copied into the tensor of a slot before a run and out of it after. A larger
//! one is passed: the slot's infer request is given the tensor of the sequence and another one to
//! write to, and they change places. A failed run leaves the contents as they were.

use std::sync::Arc;

use super::{
    read::SplitModel,
    saved::{self, SavedVariables},
    split::TENSOR,
    variables::{self, StateValues, Transfer, Variables, copy},
};
use crate::openvino::{
    convert,
    describe::{self, Described},
    error::ModelLoadError,
    ffi::{self, CompiledModel, Core, FixedTensor, InferRequest, Side},
    limit::Limit,
    model_file::{self, Load},
    names::Port,
    prepare::{self, Prepared},
    slot::Slot,
    slot_error::{SlotError, new_tensor, runtime},
    slot_input::SlotInput,
};

/// Variables of a compiled model as its slots have them.
pub(in crate::openvino) struct StateTensors {
    variables: Arc<Variables>,
    /// The model that computes initial values at each start, if they depend on inputs.
    initial: Option<(CompiledModel, Vec<Described>, Vec<Described>)>,
}

impl StateTensors {
    /// Prepares and compiles a model whose variables have been taken out.
    pub(in crate::openvino) fn ready<'a>(
        core: &mut Core,
        load: &Load<'a>,
        split: SplitModel,
    ) -> Result<(Prepared<'a>, CompiledModel, Self), ModelLoadError> {
        let names = &split.variables;
        let prepared = prepare::prepare(split.step, load, [names.len(); 2])?;
        let first = [prepared.inputs.len(), prepared.outputs.len()];
        let model = &prepared.model;
        let before = described(names, Side::Input, |place| {
            model.port(Side::Input, first[0] + place)
        })?;
        let after = described(names, Side::Output, |place| {
            model.port(Side::Output, first[1] + place)
        })?;
        let mut variables = Variables {
            list: Vec::new(),
            first,
            bytes: 0,
            initial: Vec::new(),
            computed: Vec::new(),
            digest: saved::digest(load)?,
        };
        for (place, (before, after)) in before.iter().zip(&after).enumerate() {
            let port = model.port(Side::Input, first[0] + place);
            let name = port.and_then(|port| port.get_name());
            let (now, next) = (&before.info, &after.info);
            if name != Ok(format!("{TENSOR}{place}")) || now.dtype != next.dtype {
                return Err(ModelLoadError::unfit(format!(
                    "variable `{}` is not where it is expected behind the inputs",
                    now.name
                )));
            }
            if !now.shape.includes(&next.shape) {
                return Err(ModelLoadError::unfit(format!(
                    "variable `{}` has shape {}, and is given shape {}",
                    now.name, now.shape, next.shape
                )));
            }
            variables.add(&names[place], before)?;
        }
        let mut initial = None;
        if let Some(part) = split.initial {
            let names: Vec<String> = part.variables.iter().map(|&of| names[of].clone()).collect();
            let (model, inputs) = match part.of_inputs {
                true => {
                    let prepared = prepare::prepare(part.model, load, [0, names.len()])?;
                    (prepared.model, prepared.inputs)
                }
                false => (part.model, Vec::new()),
            };
            let mut model = model_file::compile(core, &model, load.options)?;
            let inputs = describe::all(Side::Input, inputs, load.layouts, |side, place| {
                model.port(side, place)
            })?;
            let outputs = described(&names, Side::Output, |place| {
                model.port(Side::Output, place)
            })?;
            if part.of_inputs {
                variables.computed = part.variables;
                initial = Some((model, inputs, outputs));
            } else {
                let ports: Vec<usize> = (0..outputs.len()).collect();
                let mut slot = Slot::new(&mut model, &inputs, &outputs, None)?;
                let values = slot.infer(None, &[], &ports, None)?;
                for (of, value) in part.variables.into_iter().zip(values) {
                    variables.check(of, &value)?;
                    variables.initial[of] = value;
                }
            }
        }
        let compiled = model_file::compile(core, &prepared.model, load.options)?;
        let states = Self {
            variables: Arc::new(variables),
            initial,
        };
        Ok((prepared, compiled, states))
    }

    /// Returns whether all variables have fixed shapes.
    pub(in crate::openvino) fn are_fixed(&self) -> bool {
        let mut list = self.variables.list.iter();
        list.all(|variable| variable.shape.fixed().is_some())
    }

    /// Returns the ports of the variables, in their order.
    pub(in crate::openvino) fn ports(&self) -> Vec<Port<'static>> {
        self.variables.ports().collect()
    }

    /// Returns the variables, to save and restore states.
    pub(in crate::openvino) fn saved(&self) -> SavedVariables {
        SavedVariables(Arc::clone(&self.variables))
    }

    /// Makes the tensors of a slot.
    pub(in crate::openvino) fn of_slot(
        &mut self,
        request: &InferRequest,
    ) -> Result<SlotStates, SlotError> {
        let variables = Arc::clone(&self.variables);
        let [inputs, outputs] = variables.first;
        let tensor = |side, place| {
            let tensor = request.tensor(side, place).and_then(FixedTensor::new);
            tensor.map_err(runtime("reach the tensor of a variable"))
        };
        let mut copied = Vec::new();
        let mut spare = Vec::new();
        for (place, variable) in variables.list.iter().enumerate() {
            match variable.transfer {
                Transfer::Copied(_) => copied.push([
                    tensor(Side::Input, inputs + place)?,
                    tensor(Side::Output, outputs + place)?,
                ]),
                Transfer::Passed { .. } => spare.push(None),
            }
        }
        let initial = match &mut self.initial {
            Some((model, inputs, outputs)) => Some(Slot::new(model, inputs, outputs, None)?),
            None => None,
        };
        Ok(SlotStates {
            variables,
            copied,
            spare,
            initial,
        })
    }
}

/// Describes variables by their ports.
fn described(
    names: &[String],
    side: Side,
    port: impl Fn(usize) -> Result<ffi::Port, openvino::InferenceError>,
) -> Result<Vec<Described>, ModelLoadError> {
    let ports = names.iter().map(|name| variables::port(name));
    describe::all(side, ports.collect(), &<_>::default(), |_, place| {
        port(place)
    })
}

/// Tensors of variables of one slot.
pub(in crate::openvino) struct SlotStates {
    pub(super) variables: Arc<Variables>,
    /// Input and output of each small one, those of the infer request.
    copied: Vec<[FixedTensor; 2]>,
    /// The tensor that each other one is written to.
    spare: Vec<Option<ffi::Tensor>>,
    /// Computes initial values that depend on inputs.
    initial: Option<Slot>,
}

impl SlotStates {
    /// Makes the contents that a sequence begins with.
    pub(in crate::openvino) fn initial(
        &mut self,
        inputs: &[SlotInput],
        limit: Option<&mut Limit<'_>>,
    ) -> Result<StateValues, SlotError> {
        let variables = &*self.variables;
        let mut computed = Vec::new();
        if let Some(slot) = &mut self.initial {
            let ports: Vec<usize> = (0..variables.computed.len()).collect();
            let limit = limit.map(Limit::again);
            computed = slot.infer(None, inputs, &ports, limit)?;
        }
        variables.values(|place| {
            let found = variables.computed.iter().position(|&of| of == place);
            match found.and_then(|found| computed.get(found)) {
                Some(value) => {
                    variables.check(place, value)?;
                    Ok(value)
                }
                None => Ok(&variables.initial[place]),
            }
        })
    }

    /// Gives the contents to the infer request of the slot.
    pub(in crate::openvino) fn give(
        &mut self,
        request: &mut InferRequest,
        values: &StateValues,
    ) -> Result<(), SlotError> {
        let [inputs, outputs] = self.variables.first;
        let mut copied = self.copied.iter_mut();
        let mut passed = values.passed.iter().zip(&mut self.spare);
        for (place, variable) in self.variables.list.iter().enumerate() {
            match &variable.transfer {
                Transfer::Copied(range) => {
                    if let Some([input, _]) = copied.next() {
                        copy(&values.bytes[range.clone()], input.bytes_mut())?;
                    }
                }
                Transfer::Passed { shape, .. } => {
                    if let Some((tensor, spare)) = passed.next() {
                        let spare = match spare {
                            Some(spare) => spare,
                            None => {
                                let element = convert::element_type(variable.dtype);
                                spare.insert(new_tensor(element, shape)?)
                            }
                        };
                        let fail = || runtime("pass a variable");
                        request
                            .set_tensor(Side::Input, inputs + place, tensor)
                            .map_err(fail())?;
                        request
                            .set_tensor(Side::Output, outputs + place, spare)
                            .map_err(fail())?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Takes the contents after a run.
    pub(in crate::openvino) fn take(&mut self, values: &mut StateValues) -> Result<(), SlotError> {
        let mut copied = self.copied.iter();
        let mut passed = values.passed.iter_mut().zip(&mut self.spare);
        for variable in &self.variables.list {
            match &variable.transfer {
                Transfer::Copied(range) => {
                    if let Some([_, output]) = copied.next() {
                        copy(output.bytes(), &mut values.bytes[range.clone()])?;
                    }
                }
                Transfer::Passed { is_fixed, .. } => {
                    if let Some((tensor, slot)) = passed.next()
                        && let Some(next) = slot.take()
                    {
                        let old = std::mem::replace(tensor, next);
                        // The memory of one that grows would go from long sequences to short ones.
                        *slot = is_fixed.then_some(old);
                    }
                }
            }
        }
        Ok(())
    }
}
