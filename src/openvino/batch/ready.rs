//! Preparation of batches at load: sizes are compiled, checked, and measured.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::Mutex;

use super::{
    BatchMemory, BatchOutcome, Batches, Unbatched,
    memory::ByteCount,
    model::{BatchModel, NoBatch, open_length},
    rows::BatchItem,
    sizes::{BatchSizes, CANDIDATES, MAX_TIME, SearchStep, SizeSearch, Verdict},
    stored::{Measured, StoredSizes},
};
use crate::{
    error::{Error, chain},
    openvino::{
        describe::Described, error::ModelLoadError, ffi::Core, model_file::Load, names::Port,
        options::Batching, prepare::Prepared, slot::Slot, slot_error::SlotError,
        slot_input::SlotInput, state::SequenceState,
    },
    tensor::{DataType, Tensor, cast, values::values},
};

/// Tolerance of a number of a batch against that of a request alone, of the larger of 1 and the number.
const TOLERANCE: f64 = 1e-3;

/// The same where a device computes in numbers of 16 bits, of which a `bf16` has 8 for its digits.
const ROUGH: f64 = 2e-2;

/// Number of steps of sequences that are compared.
const STEPS: usize = 3;

/// Number of rows of a batch that are compared.
const COMPARED: usize = 4;

/// Number of runs of a measurement, and the time after which there are no more of them.
const RUNS: (usize, Duration) = (20, Duration::from_millis(300));

/// Turn of the model whose batches are prepared: two that ran at the same time would measure each other, and each would
/// be charged for what the other takes.
static TURN: Mutex<()> = Mutex::new(());

/// A model that is being loaded, as batches need it.
pub(in crate::openvino) struct Loading<'a, 'l> {
    pub(in crate::openvino) core: &'a mut Core,
    pub(in crate::openvino) load: &'a Load<'l>,
    /// Folder of compiled models.
    pub(in crate::openvino) cache: Option<&'a str>,
    pub(in crate::openvino) prepared: &'a mut Prepared<'l>,
    /// Ports of variables, behind those of clients.
    pub(in crate::openvino) variables: Vec<Port<'static>>,
    pub(in crate::openvino) inputs: &'a [Described],
    pub(in crate::openvino) outputs: &'a [Described],
    /// Indicates that the device computes with 16-bit numbers.
    pub(in crate::openvino) is_rough: bool,
    pub(in crate::openvino) memory: BatchMemory,
}

/// Compiles a model for batches, as its options say; `slot` is one of its own to compare and measure with.
///
/// # Errors
///
/// Fails with the reason why requests run one by one, which is logged, if a model or a machine is not fit for batches.
pub(in crate::openvino) fn ready(
    mut loading: Loading<'_, '_>,
    slot: Slot,
) -> Result<Batches, Unbatched> {
    let load = loading.load;
    // What is refused, as loads for the shapes of requests are, waits for no other model.
    let found = loading.refuse().and_then(|()| {
        let _turn = TURN.lock();
        if let Some(known) = load.batches {
            return loading.known(known, slot);
        }
        match load.options.batching {
            // Who asks for none does not come here.
            Batching::Off | Batching::Auto => loading.measured(slot),
            Batching::UpTo { rows, .. } => loading.configured(rows, slot),
        }
    });
    let unbatched = |reason: &str, known| {
        Err(Unbatched {
            reason: reason.into(),
            known,
        })
    };
    let off = |reason: &str| {
        is_off(load, reason);
        unbatched(reason, None)
    };
    let PreparedBatches {
        sizes,
        known,
        models,
        limit,
    } = match found {
        Ok(found) if !found.models.is_empty() => found,
        Ok(PreparedBatches { limit, known, .. }) => {
            return match limit {
                None => off("batches are no faster here"),
                Some(limit) => {
                    tracing::warn!(model = load.name, "{} is off: {limit}", setting(load));
                    unbatched(&limit, Some(known).filter(|known| known.most() > 1))
                }
            };
        }
        Err(error) => return off(&chain(&error)),
    };
    let (model, most) = (load.name, sizes.most());
    if let Some(limit) = &limit {
        tracing::warn!(model, "no batches of more than {most} rows: {limit}");
    }
    let bytes = models.iter().map(|model| model.cost.bytes());
    let memory = ByteCount(bytes.sum());
    match load.options.stateful {
        true => tracing::info!(
            model,
            "up to {most} steps run as one inference, with about {memory} of memory"
        ),
        false => {
            let gains = sizes
                .gains()
                .map(|(rows, gain)| format!(", {rows}: {gain:.2} times as many"));
            let gains: String = gains.collect();
            tracing::info!(
                model,
                "up to {most} rows run as one inference{gains}, with about {memory} of memory"
            );
        }
    }
    let delay = match load.options.batching {
        Batching::UpTo { delay, .. } => delay,
        _ => Duration::ZERO,
    };
    Ok(Batches {
        sizes,
        known,
        delay,
        models,
        limit,
    })
}

/// Logs why requests run one by one.
pub(in crate::openvino) fn is_off(load: &Load<'_>, reason: &str) {
    tracing::info!(model = load.name, "{} is off: {reason}", setting(load));
}

/// Returns the setting that asks for batches of a model.
fn setting(load: &Load<'_>) -> &'static str {
    match load.options.stateful {
        true => "sequence_batch",
        false => "dynamic_batching",
    }
}

/// Sizes, and a compiled model for each.
#[derive(Default)]
struct PreparedBatches {
    sizes: BatchSizes,
    /// The same with those that there is not enough memory for.
    known: BatchSizes,
    models: Vec<BatchModel>,
    /// Reason why there are no larger sizes, if there is not enough memory for them.
    limit: Option<Arc<str>>,
}

/// Outcome of a search for sizes.
enum Search {
    /// The time was over before any size was found.
    Late,
    /// Sizes that are kept, and the number of candidates that need not be tried again.
    Over(PreparedBatches, usize),
}

impl Loading<'_, '_> {
    /// Compiles the sizes of the load whose place this one takes.
    fn known(
        &mut self,
        known: &BatchOutcome,
        mut slot: Slot,
    ) -> Result<PreparedBatches, ModelLoadError> {
        match &known.0 {
            Ok((sizes, limit)) => {
                let mut found = self.compiled(sizes.clone(), &mut slot)?;
                found.limit = found.limit.or_else(|| limit.clone());
                Ok(found)
            }
            Err(reason) => Err(ModelLoadError::unfit(reason.to_string())),
        }
    }

    /// Compiles sizes of a configured maximum.
    fn configured(
        &mut self,
        rows: usize,
        mut slot: Slot,
    ) -> Result<PreparedBatches, ModelLoadError> {
        let sizes = match self.load.options.stateful {
            true => BatchSizes::only(rows),
            false => BatchSizes::up_to(rows),
        };
        self.compiled(sizes, &mut slot)
    }

    /// Compiles sizes, and checks each, as far as there is memory for them.
    fn compiled(
        &mut self,
        mut sizes: BatchSizes,
        slot: &mut Slot,
    ) -> Result<PreparedBatches, ModelLoadError> {
        let (known, mut models, mut limit) = (sizes.clone(), Vec::new(), None);
        for (place, size) in sizes.list.iter().enumerate() {
            let made = self.compile(size.rows);
            match made.and_then(|model| self.admit(model, slot, place)) {
                Ok(model) => models.push(model),
                Err(NoBatch::Unfit(error)) => return Err(error),
                // Larger ones take more.
                Err(NoBatch::Memory(too_much)) => {
                    limit = Some(too_much.to_string().into());
                    break;
                }
            }
        }
        sizes.list.truncate(models.len());
        Ok(PreparedBatches {
            sizes,
            known,
            models,
            limit,
        })
    }

    /// Gives the slot an infer request of a compiled model, and checks that.
    fn admit(
        &self,
        mut model: BatchModel,
        slot: &mut Slot,
        place: usize,
    ) -> Result<BatchModel, NoBatch> {
        let load = ModelLoadError::from;
        slot.add_batch(&mut model).map_err(load)?;
        self.check(slot, place, model.rows).map_err(load)?;
        if let Err(too_much) = model.cost.ran() {
            slot.remove_batch(place);
            return Err(too_much.into());
        }
        Ok(model)
    }

    /// Compiles the sizes that raise the throughput, as measured now or before.
    fn measured(&mut self, mut slot: Slot) -> Result<PreparedBatches, ModelLoadError> {
        let stored = self.cache.map(|folder| StoredSizes::new(folder, self.load));
        let known = stored.as_ref().and_then(StoredSizes::read);
        let (known, tried) = match known {
            Some(Measured {
                refused: Some(reason),
                ..
            }) => return Err(ModelLoadError::unfit(reason)),
            Some(Measured { sizes, tried, .. }) => {
                let known = self.compiled(sizes, &mut slot)?;
                if tried >= CANDIDATES.len() || known.limit.is_some() {
                    return Ok(known);
                }
                (known, tried)
            }
            None => (PreparedBatches::default(), 0),
        };
        let measured = match self.measure(slot, known, tried) {
            // It says nothing of the next start, so it is not stored.
            Ok(Search::Late) => {
                let text = "measuring them takes more than";
                return Err(ModelLoadError::unfit(format!(
                    "{text} {MAX_TIME:?}; max_batch in place of auto sets a size without a measurement"
                )));
            }
            Ok(Search::Over(found, tried)) => Ok((found, tried)),
            Err(error) => Err(error),
        };
        // Another limit of memory is no other machine, so that what it has kept from being measured is not stored.
        let is_limited = matches!(&measured, Ok((found, _)) if found.limit.is_some());
        if let Some(stored) = stored.filter(|_| !is_limited) {
            stored.write(&match &measured {
                Ok((found, tried)) => Measured {
                    refused: None,
                    sizes: found.sizes.clone(),
                    tried: *tried,
                },
                Err(error) => Measured {
                    refused: Some(chain(error)),
                    sizes: BatchSizes::default(),
                    tried: CANDIDATES.len(),
                },
            });
        }
        measured.map(|(found, _)| found)
    }

    /// Measures one size after the other, from where an earlier search has ended.
    fn measure(
        &mut self,
        mut slot: Slot,
        known: PreparedBatches,
        tried: usize,
    ) -> Result<Search, ModelLoadError> {
        let (model, begun) = (self.load.name, Instant::now());
        let candidates = &CANDIDATES[tried..];
        tracing::info!(
            model,
            "measuring batches of {} rows, for {MAX_TIME:?} at most",
            listed(candidates)
        );
        let wanted: Vec<usize> = (0..self.outputs.len()).collect();
        let mut seed = 1;
        let request = self.request(&mut seed)?;
        let alone = fastest(|| slot.infer(None, &request, &wanted, None).map(drop))?;
        let (mut models, mut limit) = (known.models, None);
        let mut search = match tried {
            0 => SizeSearch::new(alone),
            _ => SizeSearch::after(known.sizes, tried),
        };
        search.begin(alone);
        let is_late = loop {
            let rows = match search.step(begun.elapsed()) {
                SearchStep::Measure(rows) => rows,
                SearchStep::Late => break true,
                SearchStep::Over => break false,
            };
            let started = Instant::now();
            let place = models.len();
            let made = self.compile(rows);
            let compiled = started.elapsed();
            // A larger one that does not fit leaves the smaller ones.
            if matches!(made, Err(NoBatch::Unfit(_))) && !models.is_empty() {
                break false;
            }
            let model = match made.and_then(|model| self.admit(model, &mut slot, place)) {
                Ok(model) => model,
                Err(NoBatch::Memory(too_much)) => {
                    limit = Some(too_much.to_string().into());
                    break false;
                }
                Err(NoBatch::Unfit(error)) => return Err(error),
            };
            let mut batch = || {
                let items = (0..rows).map(|_| BatchItem {
                    state: None,
                    inputs: &request,
                    wanted: &wanted,
                    rows: 1,
                });
                let mut items: Vec<_> = items.collect();
                slot.infer_batch(place, &mut items, &|| false).map(drop)
            };
            let mut took = fastest(&mut batch)?;
            if !search.gains(took) {
                // What disturbed it may be over.
                took = took.min(fastest(&mut batch)?);
            }
            search.alone_again(fastest(|| {
                slot.infer(None, &request, &wanted, None).map(drop)
            })?);
            match search.measured(took) {
                Verdict::Dropped => slot.remove_batch(place),
                Verdict::Kept => models.push(model),
            }
            search.took(compiled, started.elapsed() - compiled);
        };
        let tried = if is_late {
            search.tried()
        } else {
            CANDIDATES.len()
        };
        let found = search.found(&mut models);
        let kept: Vec<usize> = found.list.iter().map(|size| size.rows).collect();
        let kept = match kept.as_slice() {
            [] => "none".to_owned(),
            kept => format!("{} rows", listed(kept)),
        };
        let seconds = begun.elapsed().as_secs_f64();
        let rest = match (is_late, &limit) {
            (true, _) if self.cache.is_some() => {
                "; there was no time for larger ones, which the next start measures"
            }
            (true, _) => "; there was no time for larger ones",
            (false, Some(_)) => "; there was no memory for larger ones",
            (false, None) => "",
        };
        tracing::info!(
            model,
            "measured batches in {seconds:.1} s; kept: {kept}{rest}"
        );
        Ok(match is_late && models.is_empty() {
            true => Search::Late,
            false => {
                let sizes = found;
                Search::Over(
                    PreparedBatches {
                        known: sizes.clone(),
                        sizes,
                        models,
                        limit,
                    },
                    tried,
                )
            }
        })
    }

    /// Refuses what does not go together with batches.
    fn refuse(&self) -> Result<(), ModelLoadError> {
        let options = self.load.options;
        let reason = if options.inference_timeout.is_some() {
            "inference_timeout_ms is set"
        } else if options.is_auto() {
            "the shape or the batch size is auto"
        } else if self.inputs.is_empty() {
            "the model has no inputs"
        } else {
            return Ok(());
        };
        Err(ModelLoadError::unfit(reason))
    }

    fn compile(&mut self, rows: usize) -> Result<BatchModel, NoBatch> {
        let size = (rows, &self.memory);
        BatchModel::ready(self.core, self.load, self.prepared, &self.variables, size)
    }

    /// Makes a request of one row.
    fn request(&self, seed: &mut u64) -> Result<Vec<SlotInput>, SlotError> {
        let inputs = self.inputs.iter().map(|input| numbers(input, seed));
        let inputs: Option<Vec<_>> = inputs.collect();
        inputs.ok_or_else(|| refused("an input is of strings, or empty".to_owned()))
    }

    /// Runs requests in a batch and alone.
    ///
    /// # Errors
    ///
    /// Fails if outputs differ by more than the tolerance, or anything does not run.
    fn check(&self, slot: &mut Slot, place: usize, rows: usize) -> Result<(), SlotError> {
        let is_stateful = self.load.options.stateful;
        let wanted: Vec<usize> = (0..self.outputs.len()).collect();
        let states = || -> Vec<SequenceState> { (0..rows).map(|_| <_>::default()).collect() };
        let (mut alone, mut together) = (states(), states());
        let compared: Vec<usize> = (0..rows).step_by(rows.div_ceil(COMPARED)).collect();
        let mut seed = 1;
        let steps = if is_stateful { STEPS } else { 1 };
        for _ in 0..steps {
            let given = compared.iter().map(|_| self.request(&mut seed));
            let given = given.collect::<Result<Vec<_>, _>>()?;
            // All others are the same, so that many large rows take no memory.
            let other = self.request(&mut seed)?;
            let of_row = |row| compared.binary_search(&row).ok().map(|place| &given[place]);
            let items = together.iter_mut().enumerate();
            let mut items: Vec<BatchItem<'_>> = items
                .map(|(row, state)| BatchItem {
                    state: is_stateful.then_some(state),
                    inputs: of_row(row).unwrap_or(&other),
                    wanted: of_row(row).map_or(&[][..], |_| &wanted),
                    rows: 1,
                })
                .collect();
            let found = slot.infer_batch(place, &mut items, &|| false)?;
            let found =
                found.ok_or_else(|| refused("there is no memory for its rows".to_owned()))?;
            for (&row, given) in compared.iter().zip(&given) {
                let state = is_stateful.then_some(&mut alone[row]);
                let expected = slot.infer(state, given, &wanted, None)?;
                let tolerance = if self.is_rough { ROUGH } else { TOLERANCE };
                for (alone, together) in expected.iter().zip(&found[row]) {
                    compare(alone, together, tolerance)?;
                }
            }
        }
        Ok(())
    }
}

/// Lists sizes.
fn listed(sizes: &[usize]) -> String {
    let sizes = sizes.iter().map(ToString::to_string);
    sizes.collect::<Vec<_>>().join(", ")
}

/// Compares an output of a request alone with that of the same request in a batch.
fn compare(alone: &Tensor, together: &Tensor, tolerance: f64) -> Result<(), SlotError> {
    if alone.shape() != together.shape() {
        return Err(refused(format!(
            "a batch gives an output of shape {:?} where a request alone gives {:?}",
            together.shape(),
            alone.shape()
        )));
    }
    let numbers = values(alone).zip(values(together));
    let mut numbers = numbers.filter_map(|(one, other)| Some((one.as_f64()?, other.as_f64()?)));
    // Not-a-number is no less than anything.
    let is_far = |(one, other): &(f64, f64)| {
        let is_near = (one - other).abs() <= tolerance * one.abs().max(1.0);
        one.to_bits() != other.to_bits() && !is_near
    };
    match numbers.find(is_far) {
        None => Ok(()),
        Some((one, other)) => Err(refused(format!(
            "a batch gives {other} where a request alone gives {one}"
        ))),
    }
}

fn refused(text: String) -> SlotError {
    SlotError::Other(Error::invalid(text))
}

/// Runs something several times; returns the shortest duration, since other work on the machine only adds
/// to it.
fn fastest(mut run: impl FnMut() -> Result<(), SlotError>) -> Result<Duration, SlotError> {
    let (most, limit) = RUNS;
    // The first one is slow.
    run()?;
    let begun = Instant::now();
    let mut fastest = Duration::MAX;
    for number in 0..most {
        let started = Instant::now();
        run()?;
        fastest = fastest.min(started.elapsed());
        // One that is slow is less disturbed.
        if begun.elapsed() >= limit && (number >= 2 || fastest >= limit) {
            break;
        }
    }
    Ok(fastest)
}

/// Makes an input of one row, of numbers from -4 to 4, or of 0 and 1 if they are whole; `None` if it is of
/// strings or has no row.
fn numbers(input: &Described, seed: &mut u64) -> Option<SlotInput> {
    let dtype = input.info.dtype;
    let mut shape: Vec<usize> = input.info.shape.0.iter().map(open_length).collect();
    *shape.first_mut()? = 1;
    let count = shape.iter().product();
    let mut next = || {
        *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let high = u32::try_from(*seed >> 32).unwrap_or_default();
        let part = f64::from(high) / f64::from(u32::MAX);
        match dtype {
            DataType::F16 | DataType::Bf16 | DataType::F32 | DataType::F64 => part * 8.0 - 4.0,
            _ => part.round(),
        }
    };
    let data: Vec<u8> = (0..count)
        .flat_map(|_: usize| next().to_le_bytes())
        .collect();
    let tensor = Tensor::new(DataType::F64, shape, data.into()).ok()?;
    let (_, shape, data) = cast(&tensor, dtype)?.into_parts();
    Some(SlotInput::new(input.info.port, shape, data))
}

#[cfg(test)]
mod tests {
    use super::{ROUGH, TOLERANCE, compare};
    use crate::tensor::{DataType, Tensor};

    fn tensor(numbers: &[f32]) -> Tensor {
        let data: Vec<u8> = numbers.iter().flat_map(|it| it.to_le_bytes()).collect();
        Tensor::new(DataType::F32, vec![1, numbers.len()], data.into()).unwrap()
    }

    #[test]
    fn outputs_may_differ_by_a_thousandth_of_the_larger_of_1_and_the_number() {
        let differs = |one: &[f32], other: &[f32]| {
            compare(&tensor(one), &tensor(other), TOLERANCE)
                .err()
                .map(|it| it.to_string())
        };
        assert_eq!(differs(&[0.0, 1000.0], &[0.0009, 1000.9]), None);
        assert_eq!(differs(&[f32::NAN], &[f32::NAN]), None);
        // By a fiftieth where the device computes in 16 bits.
        let rough = |other| compare(&tensor(&[0.0, 100.0]), &tensor(&[0.0, other]), ROUGH).is_ok();
        assert!(rough(101.9) && !rough(102.1));
        assert!(differs(&[0.0, 100.0], &[0.0, 101.9]).is_some());
        insta::assert_snapshot!(differs(&[0.0], &[0.25]).unwrap(), @"a batch gives 0.25 where a request alone gives 0");
        assert!(differs(&[1.0], &[f32::NAN]).is_some());
        insta::assert_snapshot!(
            differs(&[1.0], &[1.0, 2.0]).unwrap(),
            @"a batch gives an output of shape [1, 2] where a request alone gives [1, 1]"
        );
    }
}
