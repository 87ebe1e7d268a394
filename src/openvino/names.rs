//! The names that clients use for a model's tensors, where they are others than the model's own.

use std::collections::{BTreeMap, HashSet};

use crate::tensor::PartialShape;

/// Public names by the model's own, for inputs and for outputs; tensors that are not named here
/// keep their own.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Names {
    /// Of inputs.
    pub inputs: BTreeMap<String, String>,
    /// Of outputs.
    pub outputs: BTreeMap<String, String>,
}

/// Names that do not fit the model.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NamesError {
    /// There is no tensor of a name.
    #[error("the model has no {direction} `{name}` to give another name; it has: {known}")]
    Unknown {
        /// `input` or `output`.
        direction: &'static str,
        /// The name that the model should have.
        name: String,
        /// Those that it has.
        known: String,
    },
    /// Two tensors would have one name.
    #[error("two {direction}s of the model would have the name `{name}`")]
    Twice {
        /// `input` or `output`.
        direction: &'static str,
        /// The public name.
        name: String,
    },
}

/// An input or output of a model, before it is compiled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Port {
    /// The model's own name of it.
    pub(super) own: String,
    /// The name that clients use.
    pub(super) public: String,
    /// What the model allows; `None` if even the number of dimensions may vary.
    pub(super) shape: Option<PartialShape>,
}

impl Port {
    /// Returns the number of dimensions, if that is fixed.
    pub(super) fn rank(&self) -> Option<usize> {
        self.shape.as_ref().map(|shape| shape.0.len())
    }
}

/// Gives tensors their public names.
pub(super) fn publish(
    direction: &'static str,
    ports: Vec<(String, Option<PartialShape>)>,
    names: &BTreeMap<String, String>,
) -> Result<Vec<Port>, NamesError> {
    if let Some(name) = names
        .keys()
        .find(|&name| ports.iter().all(|(own, _)| own != name))
    {
        let known: Vec<&str> = ports.iter().map(|(own, _)| own.as_str()).collect();
        return Err(NamesError::Unknown {
            direction,
            name: name.clone(),
            known: known.join(", "),
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
        .find(|port| !seen.insert(&port.public) && !names.is_empty());
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
        publish("input", own, &names)
            .map(|ports| ports.into_iter().map(|port| port.public).collect())
            .map_err(|error| error.to_string())
    }

    #[test]
    fn some_tensors_have_another_name_for_clients() {
        assert_eq!(publish_ab(&[]).unwrap(), ["a", "b"]);
        assert_eq!(publish_ab(&[("b", "picture")]).unwrap(), ["a", "picture"]);
        assert_eq!(publish_ab(&[("a", "b"), ("b", "a")]).unwrap(), ["b", "a"]);
    }

    #[test]
    fn names_that_do_not_fit_are_refused() {
        insta::assert_snapshot!(
            publish_ab(&[("c", "x")]).unwrap_err(),
            @"the model has no input `c` to give another name; it has: a, b"
        );
        insta::assert_snapshot!(
            publish_ab(&[("a", "b")]).unwrap_err(),
            @"two inputs of the model would have the name `b`"
        );
    }
}
