//! The names that clients use for a model's tensors, where they are others than the model's own.

use std::{
    collections::{BTreeMap, HashSet},
    fmt,
    path::PathBuf,
};

use crate::tensor::PartialShape;

/// Public names by the model's own, for inputs and for outputs; tensors that are not named here
/// keep their own.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TensorNames {
    /// Names of inputs.
    pub inputs: BTreeMap<String, String>,
    /// Names of outputs.
    pub outputs: BTreeMap<String, String>,
    /// File with the names, for messages.
    pub file: PathBuf,
}

/// Names that do not fit the model.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NamesError {
    /// Two tensors would have one name.
    #[error("two {direction}s of the model would have the name `{name}`")]
    Twice {
        /// `input` or `output`.
        direction: &'static str,
        /// The public name.
        name: String,
    },
}

/// A name for a tensor that the model does not have, as an older release of the model may have had it.
/// It has no effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Stale {
    /// `input` or `output`.
    direction: &'static str,
    /// The name that the model should have.
    name: String,
    /// Names that the model has.
    known: String,
}

impl fmt::Display for Stale {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            direction,
            name,
            known,
        } = self;
        write!(
            f,
            "the name for the {direction} `{name}` is left out: the model has no such {direction}; it \
             has: {known}"
        )
    }
}

/// An input or output of a model, before it is compiled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Port {
    /// The model's own name of it.
    pub(super) own: String,
    /// The name that clients use.
    pub(super) public: String,
    /// Shape that the model allows; `None` if even the number of dimensions may vary.
    pub(super) shape: Option<PartialShape>,
}

impl Port {
    /// Returns the number of dimensions, if that is fixed.
    pub(super) fn rank(&self) -> Option<usize> {
        self.shape.as_ref().map(|shape| shape.0.len())
    }
}

/// Gives tensors their public names, and adds names of none of them to `stale`.
pub(super) fn publish(
    direction: &'static str,
    ports: Vec<(String, Option<PartialShape>)>,
    names: &BTreeMap<String, String>,
    stale: &mut Vec<Stale>,
) -> Result<Vec<Port>, NamesError> {
    let (mut renamed, own) = (false, |(own, _): &(String, _)| own.clone());
    for name in names.keys() {
        if ports.iter().any(|(own, _)| own == name) {
            renamed = true;
            continue;
        }
        stale.push(Stale {
            direction,
            name: name.clone(),
            known: ports.iter().map(own).collect::<Vec<_>>().join(", "),
        });
    }
    let ports: Vec<Port> = ports
        .into_iter()
        .map(|(own, shape)| Port {
            public: names.get(&own).unwrap_or(&own).clone(),
            own,
            shape,
        })
        .collect();
    let mut seen = HashSet::new();
    // A model may itself give one name to several outputs; that is its own affair.
    let twice = ports
        .iter()
        .find(|port| !seen.insert(&port.public) && renamed);
    match twice {
        Some(port) => Err(NamesError::Twice {
            direction,
            name: port.public.clone(),
        }),
        None => Ok(ports),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::publish;

    fn publish_ab(names: &[(&str, &str)]) -> Result<Vec<String>, String> {
        let own = ["a", "b"].map(|name| (name.to_owned(), None)).to_vec();
        let names: BTreeMap<String, String> = names
            .iter()
            .map(|&(own, public)| (own.to_owned(), public.to_owned()))
            .collect();
        let mut stale = Vec::new();
        let ports = publish("input", own, &names, &mut stale).map_err(|error| error.to_string())?;
        let public = ports.into_iter().map(|port| port.public);
        Ok(public
            .chain(stale.iter().map(ToString::to_string))
            .collect())
    }

    #[test]
    fn some_tensors_have_another_name_for_clients() {
        assert_eq!(publish_ab(&[]).unwrap(), ["a", "b"]);
        assert_eq!(publish_ab(&[("b", "picture")]).unwrap(), ["a", "picture"]);
        assert_eq!(publish_ab(&[("a", "b"), ("b", "a")]).unwrap(), ["b", "a"]);
    }

    #[test]
    fn names_of_no_tensor_are_left_out_and_reported() {
        insta::assert_snapshot!(
            publish_ab(&[("b", "x"), ("c", "a")]).unwrap().join("\n"),
            @"
        a
        x
        the name for the input `c` is left out: the model has no such input; it has: a, b
        "
        );
    }

    #[test]
    fn two_tensors_of_one_name_are_refused() {
        insta::assert_snapshot!(
            publish_ab(&[("a", "b")]).unwrap_err(),
            @"two inputs of the model would have the name `b`"
        );
    }
}
