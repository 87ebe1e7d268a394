//! Path from a model file to a compiled model with its slots.

use std::{borrow::Cow, sync::Arc};

use openvino::{PropertyKey, RwPropertyKey};

use super::{
    batch::{
        BatchMemory, BatchRules,
        ready::{self, Loading},
    },
    cache, cores,
    describe::{self, Described},
    device,
    error::ModelLoadError,
    ffi::{CompiledModel, Core, Side},
    guard::Guard,
    health::Nature,
    loader, low_latency,
    model_file::{self, Load},
    options::{Batching, LoadOptions, StateMode},
    prepare::{self, Prepared},
    run::Runner,
    slot::Slot,
    state::{
        Maker, SavedVariables,
        read::{self, SplitModel},
        tensors::StateTensors,
    },
};
use crate::{
    error::{Error, chain},
    servable::ServableInfo,
    tensor::DataType,
};

/// Maximum number of infer requests that a model may ask for.
pub const MAX_NIREQ: u32 = 100_000;

/// A model that is ready to run.
pub struct Compiled {
    /// Inputs and outputs, sorted by name.
    pub info: ServableInfo,
    /// Its slots.
    pub runner: Runner,
    /// The variables, if states of sequences are tensors.
    pub variables: Option<SavedVariables>,
    /// Indicates that the compiled model came from the cache.
    pub from_cache: bool,
}

/// Model that was read, and not compiled.
#[derive(Debug, Clone)]
pub struct Inspected {
    /// Inputs and outputs, as they are once it is loaded.
    pub info: ServableInfo,
    /// Warnings that its load would give.
    pub warnings: Vec<String>,
}

/// Reads a model and returns its inputs and outputs as they are once it is loaded. Takes the time
/// of the file, and none of a device's.
///
/// # Errors
///
/// Fails as [`load`] does before it compiles; a device may still refuse the model.
pub fn inspect(load: Load<'_>) -> Result<Inspected, ModelLoadError> {
    let options = &*options(load.options)?;
    let load = Load { options, ..load };
    let Prepared {
        model,
        inputs,
        outputs,
        stale,
    } = cores::with(options, None, |core| prepared(core, &load))?;
    let node = |side, port| model.port(side, port);
    let inputs = describe::all(Side::Input, inputs, load.layouts, node)?;
    let outputs = describe::all(Side::Output, outputs, load.layouts, node)?;
    let file = load.names.file.display();
    Ok(Inspected {
        info: describe::info(inputs, outputs),
        warnings: stale.iter().map(|it| format!("{file}: {it}")).collect(),
    })
}

/// Makes the options that a model is really loaded with.
fn options(options: &LoadOptions) -> Result<Cow<'_, LoadOptions>, ModelLoadError> {
    let mut options = Cow::Borrowed(options);
    if options.nireq > MAX_NIREQ {
        return Err(ModelLoadError::unfit(format!(
            "Nireq parameter too high - Exceeded allowed nireq value: {}; at most {MAX_NIREQ}",
            options.nireq
        )));
    }
    if options.stateful {
        let device = device::of_stateful(&options.device)?;
        if options.device != device {
            options.to_mut().device = device.to_owned();
        }
    }
    Ok(options)
}

/// Reads a model and does everything to it that comes before it is compiled.
fn prepared<'a>(core: &mut Core, load: &Load<'a>) -> Result<Prepared<'a>, ModelLoadError> {
    let model = match load.options.low_latency {
        true => low_latency::read(core, load, model_file::read)?,
        false => model_file::read(core, load)?,
    };
    prepare::prepare(model, load, [0; 2])
}

/// Reads, prepares, and compiles a model; the variables are tensors of its slots if there are any
/// tensors for them.
fn ready<'a>(
    core: &mut Core,
    load: &Load<'a>,
) -> Result<(Prepared<'a>, CompiledModel, Option<StateTensors>), ModelLoadError> {
    let plain = |core: &mut Core| {
        if load.options.stateful && load.options.batching != Batching::Off {
            ready::is_off(load, "state_mode is requests");
        }
        let prepared = prepared(core, load)?;
        let compiled = model_file::compile(core, &prepared.model, load.options)?;
        Ok((prepared, compiled, None))
    };
    if !load.options.stateful || load.options.state_mode == StateMode::Requests {
        return plain(core);
    }
    let reason = match split(core, load)? {
        Ok(split) => match StateTensors::ready(core, load, split) {
            Ok(ready) => return Ok((ready.0, ready.1, Some(ready.2))),
            Err(error) => chain(&error),
        },
        Err(error) => chain(&error),
    };
    let ready = plain(core)?;
    tracing::info!(model = load.name, "state_mode is requests: {reason}");
    Ok(ready)
}

/// Reads a model without its variables; a refusal is no error of the load.
fn split(core: &mut Core, load: &Load<'_>) -> Result<Result<SplitModel, Error>, ModelLoadError> {
    let read = |core: &mut Core, load: &Load<'_>| Ok(read::read(core, load));
    match load.options.low_latency {
        true => low_latency::read(core, load, read),
        false => read(core, load),
    }
}

/// Reads, compiles and readies a model; blocks for as long as that takes.
///
/// # Errors
///
/// See [`ModelLoadError`].
pub fn load(load: Load<'_>) -> Result<Compiled, ModelLoadError> {
    loader::give_way();
    let options = &*options(load.options)?;
    let load = Load { options, ..load };
    let folder = options.cache_dir.as_deref().and_then(cache::prepare);
    let readied = cores::with(options, folder.as_deref(), |core| {
        let (mut prepared, mut compiled, mut states) = ready(core, &load)?;
        // Loads for the shapes of requests would say it again and again.
        for stale in prepared.stale.iter().filter(|_| load.asked.is_empty()) {
            let file = load.names.file.display();
            tracing::warn!(model = load.name, "{file}: {stale}");
        }
        let node = |side, port| compiled.port(side, port);
        let inputs = describe::all(Side::Input, prepared.inputs.clone(), load.layouts, node)?;
        let outputs = describe::all(Side::Output, prepared.outputs.clone(), load.layouts, node)?;
        // Devices made of others do not say how many execution streams they have.
        let streams = number(&compiled, &PropertyKey::Rw(RwPropertyKey::NumStreams));
        let nireq = match options.nireq {
            // A stream for each, so that none waits behind an inference that does not end, and is
            // taken for another one.
            0 if options.inference_timeout.is_some() && options.device == "CPU" => streams.max(1),
            0 => number(&compiled, &PropertyKey::OptimalNumberOfInferRequests)
                .clamp(1, MAX_NIREQ)
                .max(one_for_each_core(&inputs, &outputs)),
            nireq => nireq,
        };
        let batches = match options.batching {
            Batching::Off => None,
            _ if options.stateful && states.is_none() => None,
            _ => {
                let slot = Slot::new(&mut compiled, &inputs, &outputs, states.as_mut())?;
                let slots = with_batches(options, streams, nireq);
                let loading = Loading {
                    core,
                    load: &load,
                    cache: folder.as_deref(),
                    prepared: &mut prepared,
                    variables: states.as_ref().map_or_else(Vec::new, StateTensors::ports),
                    inputs: &inputs,
                    outputs: &outputs,
                    is_rough: is_rough(&compiled),
                    memory: BatchMemory::new(options, slots as usize),
                };
                Some(ready::ready(loading, slot))
            }
        };
        let tensors = (inputs, outputs);
        let nireq = match &batches {
            Some(Ok(_)) => with_batches(options, streams, nireq),
            _ => nireq,
        };
        Ok((
            prepared.model,
            compiled,
            states,
            tensors,
            (streams, nireq),
            batches,
        ))
    })?;
    let (model, mut compiled, mut states, (inputs, outputs), (streams, nireq), mut batches) =
        readied;
    let nature = Nature {
        dynamic: model.is_dynamic(),
        stateful: options.stateful,
        bound: options.stateful && states.is_none(),
    };
    // What was read is compiled now; usually its graph and weights need no longer stay.
    let spare = load.guarded.then_some(model);
    let from_cache = is_from_cache(&compiled);
    let has_own = states.is_some() || !options.stateful;
    let mut slots = if has_own {
        (0..nireq)
            .map(|_| Slot::new(&mut compiled, &inputs, &outputs, states.as_mut()))
            .collect::<Result<Vec<_>, _>>()?
    } else {
        let maker = Arc::new(Maker::new(compiled, inputs.clone(), outputs.clone()));
        (0..nireq)
            .map(|_| maker.lender())
            .collect::<Result<Vec<_>, _>>()?
    };
    let made = batches.iter_mut().flatten();
    for batch in made.flat_map(|it| &mut it.models) {
        for slot in &mut slots {
            slot.add_batch(batch)?;
        }
    }
    let steady = inputs
        .iter()
        .map(|input| &input.info)
        .all(|info| info.shape.fixed().is_some() && info.dtype != DataType::String);
    let variables = states.as_ref().map(StateTensors::saved);
    let steady = steady && states.is_none_or(|states| states.are_fixed());
    let batches = batches.map(|made| made.map(BatchRules::from));
    let runner = Runner::new(
        slots,
        options,
        (
            steady,
            describe::have_rows(&inputs, &outputs, options),
            batches,
        ),
        streams,
        load.name,
        nature,
    );
    if let Some(spare) = spare {
        runner
            .health()
            .watch(Guard::new(spare, &inputs, options.max_waiting));
    }
    Ok(Compiled {
        info: describe::info(inputs, outputs),
        runner,
        variables,
        from_cache,
    })
}

/// Returns the number of infer requests of a model with batches, of so many without: what waits behind the inference of
/// another one is in no batch.
fn with_batches(options: &LoadOptions, streams: u32, nireq: u32) -> u32 {
    match options.nireq {
        0 => streams.clamp(1, nireq),
        _ => nireq,
    }
}

/// Returns the number of cores for a model whose tensors are small, else 1.
///
/// A device may say that one infer request is best, which it is for a client that waits for each
/// answer. A server has a thread on each core, and with small tensors another infer request costs
/// next to nothing. Measured with a tiny model and 16 clients: threads that waited for the one
/// infer request took 7 % of the processor time.
fn one_for_each_core(inputs: &[Described], outputs: &[Described]) -> u32 {
    const SMALL: usize = 1 << 20;
    if describe::fixed_bytes(inputs, outputs).is_none_or(|total| total > SMALL) {
        return 1;
    }
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    u32::try_from(cores).unwrap_or(1)
}

/// Asks the device for a number; 1 if it does not say.
fn number(compiled: &CompiledModel, key: &PropertyKey) -> u32 {
    let text = compiled.get_property(key).ok();
    text.and_then(|text| text.trim().parse().ok()).unwrap_or(1)
}

/// Asks whether the device computes in numbers of 16 bits.
fn is_rough(compiled: &CompiledModel) -> bool {
    let key = PropertyKey::Other("INFERENCE_PRECISION_HINT".into());
    let precision = compiled.get_property(&key);
    precision.is_ok_and(|precision| ["bf16", "f16"].contains(&precision.as_str()))
}

/// Asks whether the model came compiled from the cache; a device that does not say has none.
fn is_from_cache(compiled: &CompiledModel) -> bool {
    compiled
        .get_property(&PropertyKey::Other("LOADED_FROM_CACHE".into()))
        .is_ok_and(|text| text == "YES" || text == "true")
}
