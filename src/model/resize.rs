//! Shapes and batches that are `auto`: a request of another shape has the model loaded again for
//! it, beside what serves, once for all requests that wait for the same shape.

use std::{path::Path, sync::Arc};

use super::{
    check::tensor_shape,
    for_clients,
    loaded::{Asked, Loaded, SharedLoad, SharedOutcome, start_shared},
    overloaded,
    version::Version,
};
use crate::{
    error::{Error, ErrorKind, Result, chain},
    openvino::{BatchOption, LoadOptions, PerTensor, ShapeOption},
    request::InferRequest,
    servable::{ServableInfo, TensorInfo},
    task::Task,
    tensor::{Dim, PartialShape},
};

/// A load for other shapes in flight.
#[derive(Clone)]
pub(super) struct Resizing {
    asked: Asked,
    done: SharedLoad,
}

/// Returns the shapes that a request asks for beyond the loaded ones: the inputs as they would be,
/// and the shapes to load for. `None` if the loaded model will do, or must do.
pub(super) fn asked(loaded: &Loaded, request: &InferRequest) -> Option<(ServableInfo, Asked)> {
    let options = &loaded.spec.options;
    if !options.is_auto() {
        return None;
    }
    let mut info = loaded.info.clone();
    let mut changed = false;
    let mut asked = Asked::new();
    for input in &mut info.inputs {
        let found = request
            .inputs
            .iter()
            .find(|given| given.name == input.name)?;
        let shape = tensor_shape(input, found)?;
        let Some(wanted) = adapted(options, input, &shape) else {
            continue;
        };
        // A length of zero needs no data, so the other lengths could be anything.
        if shape.0.contains(&Dim::Fixed(0)) {
            return None;
        }
        // Lengths that the request leaves open are those of the model.
        let lengths: Vec<usize> = shape.0.iter().map(Dim::least).collect();
        changed |= !input.shape.allows(&lengths);
        input.shape = wanted;
        asked.push((input.name.clone(), lengths));
    }
    changed.then_some((info, asked))
}

/// Returns the shape of an input after a load for what a request has, if it may change.
fn adapted(
    options: &LoadOptions,
    input: &TensorInfo,
    shape: &PartialShape,
) -> Option<PartialShape> {
    if options.shapes.of(&input.name) == Some(&ShapeOption::Auto) {
        // Another number of dimensions is an error of the request whatever the shape may be, and lengths that it leaves
        // open are those of the model already.
        let is_whole = shape.0.len() == input.shape.0.len() && shape.fixed().is_some();
        return is_whole.then(|| shape.clone());
    }
    // Shapes come before the batch.
    if options.batch != Some(BatchOption::Auto) || options.shapes != PerTensor::Unset {
        return None;
    }
    let rank = input.shape.0.len();
    let axis = input.layout.axis('N', rank)?;
    let mut wanted = input.shape.clone();
    wanted.0[axis] = *shape.0.get(axis).filter(|_| shape.0.len() == rank)?;
    Some(wanted)
}

impl Version {
    /// Loads the version for other shapes, or waits for a load that does; returns the matching one.
    ///
    /// # Errors
    ///
    /// Fails if the model does not take the shapes; the version loaded before keeps serving.
    pub(super) async fn resize(self: &Arc<Self>, asked: &Asked) -> Result<Arc<Loaded>> {
        let place = self.resizers.enter();
        loop {
            let current = self.loaded()?;
            let most = current.spec.options.max_waiting;
            if place.ahead > most {
                return Err(overloaded(format_args!(
                    "requests waiting for the model in another shape: {most}, the most allowed"
                )));
            }
            // If the configuration is another one by now, the shapes may be none to follow.
            if fits(&current.info, asked) || !current.spec.options.is_auto() {
                return Ok(current);
            }
            let resizing = self.join(&current, asked);
            let outcome = resizing.done.clone().await;
            if resizing.asked != *asked {
                // That was for another request; ours has its turn.
                continue;
            }
            return match outcome {
                Ok(Ok(loaded)) => Ok(loaded),
                Ok(Err(failure)) => {
                    let text = refusal(&failure, &current.spec.folder);
                    Err(Error::new(ErrorKind::FailedPrecondition, text))
                }
                Err(_) => Err(Error::internal("Internal server error")),
            };
        }
    }

    /// Joins the load in flight, or starts one.
    fn join(self: &Arc<Self>, current: &Arc<Loaded>, asked: &Asked) -> Resizing {
        let mut slot = self.resizing.lock();
        if let Some(resizing) = &*slot {
            return resizing.clone();
        }
        let (version, current) = (Arc::clone(self), Arc::clone(current));
        let wanted = asked.clone();
        let load = async move {
            let outcome = version.load_for(current, wanted).await;
            *version.resizing.lock() = None;
            outcome
        };
        let resizing = Resizing {
            asked: asked.clone(),
            done: start_shared(load),
        };
        slot.insert(resizing).clone()
    }

    async fn load_for(self: &Arc<Self>, current: Arc<Loaded>, asked: Asked) -> SharedOutcome {
        tracing::info!(
            model = self.model(),
            version = self.number(),
            shapes = ?asked,
            "loading again for the shapes of a request"
        );
        match Loaded::load(self.model(), self.number(), &current.spec, asked).await {
            Ok(loaded) => {
                // If the version was loaded from another configuration meanwhile, that one stays;
                // the request that asked is answered all the same.
                let unused = match self.install_after(&current, &loaded) {
                    true => current,
                    // It goes with that request, off the async workers.
                    false => Arc::clone(&loaded),
                };
                Task::spawn(unused.drain()).detach();
                Ok(loaded)
            }
            Err(error) => {
                let text = chain(&*error.source);
                tracing::warn!("{}", chain(&error));
                Err(text.into())
            }
        }
    }
}

/// Returns the message for the client: a text that it knows, which most failures begin with, and no path of the
/// version's folder.
fn refusal(failure: &str, folder: &Path) -> String {
    const RESHAPE: &str = "Model could not be reshaped with requested shape";
    const COMPILE: &str = "Cannot compile model into target device";
    if failure.starts_with(RESHAPE) {
        // It is about nodes, whose names may look like other paths.
        return failure.replace(&*folder.to_string_lossy(), "");
    }
    let failure = for_clients(failure, &folder.to_string_lossy(), None);
    match failure.starts_with(COMPILE) {
        true => failure,
        false => format!("{RESHAPE} - {failure}"),
    }
}

fn fits(info: &ServableInfo, asked: &Asked) -> bool {
    asked.iter().all(|(name, shape)| {
        info.inputs
            .iter()
            .find(|input| input.name == *name)
            .is_some_and(|input| input.shape.allows(shape))
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::refusal;

    #[test]
    fn refusals_begin_with_known_texts_and_have_no_paths() {
        let reshape = "Model could not be reshaped with requested shape";
        for (failure, seen) in [
            (
                "Model could not be reshaped with requested shape - image (1,5): '/a/Conv'",
                format!("{reshape} - image (1,5): '/a/Conv'"),
            ),
            (
                "Cannot compile model into target device - CPU: /opt/cache/x.blob: no space",
                "Cannot compile model into target device - CPU: x.blob: no space".to_owned(),
            ),
            (
                "no model in /srv/my models/m/1; expected *.onnx",
                format!("{reshape} - no model in 1; expected *.onnx"),
            ),
            (
                "cannot read /srv/my models/m/1/model.xml: \"/srv/my models/m/1/model.xml\"",
                format!("{reshape} - cannot read model.xml: \"model.xml\""),
            ),
        ] {
            assert_eq!(refusal(failure, Path::new("/srv/my models/m/1")), seen);
        }
    }
}
