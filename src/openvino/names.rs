//! The names that clients use for a model's tensors, where they are others than the model's own.

use std::{
    collections::{BTreeMap, HashMap},
    fmt,
    path::PathBuf,
};

use super::{error::ModelLoadError, options::LayoutOption};
use crate::tensor::PartialShape;

/// Public names by the model's own, for inputs and for outputs; tensors that are not named here, or by an empty
/// text, keep their own.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TensorNames {
    /// Names of inputs.
    pub inputs: BTreeMap<String, String>,
    /// Names of outputs.
    pub outputs: BTreeMap<String, String>,
    /// File with the names, for messages.
    pub file: PathBuf,
}

/// One of the two sides of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// Tensors that clients give.
    Input,
    /// Tensors that they get.
    Output,
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Input => "input",
            Self::Output => "output",
        })
    }
}

/// An input or output of a model, before it is compiled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Port<'a> {
    /// The model's own name of it.
    pub(super) own: String,
    /// The name that clients use.
    pub(super) public: String,
    /// Shape that the model allows; `None` if even the number of dimensions may vary.
    pub(super) shape: Option<PartialShape>,
    /// The layout configured for it.
    pub(super) layout: Option<&'a LayoutOption>,
}

impl Port<'_> {
    /// Returns the number of dimensions, if that is fixed.
    pub(super) fn rank(&self) -> Option<usize> {
        self.shape.as_ref().map(|shape| shape.0.len())
    }
}

/// Lists the public names of ports, for messages.
pub(super) fn listed<'a>(ports: impl IntoIterator<Item = &'a Port<'a>>) -> String {
    let names: Vec<&str> = ports.into_iter().map(|port| port.public.as_str()).collect();
    names.join(", ")
}

/// Gives tensors their public names; an empty one leaves a tensor its own. Names of tensors that the model does not
/// have, as an older release of it may have had them, have no effect, and a text about each is added to `stale`.
pub(super) fn publish<'a>(
    side: Side,
    ports: Vec<(String, Option<PartialShape>)>,
    names: &BTreeMap<String, String>,
    stale: &mut Vec<String>,
) -> Result<Vec<Port<'a>>, ModelLoadError> {
    let given = |own: &str| names.get(own).filter(|public| !public.is_empty());
    for name in names.keys() {
        if ports.iter().any(|(own, _)| own == name) {
            continue;
        }
        let known: Vec<&str> = ports.iter().map(|(own, _)| own.as_str()).collect();
        stale.push(format!(
            "the name for the {side} `{name}` is left out: the model has no such {side}; it has: {}",
            known.join(", ")
        ));
    }
    let ports: Vec<Port<'_>> = ports
        .into_iter()
        .map(|(own, shape)| Port {
            public: given(&own).unwrap_or(&own).clone(),
            own,
            shape,
            layout: None,
        })
        .collect();
    let mut seen = HashMap::new();
    // One tensor may be several outputs of a model, all of which have its name.
    let twice = ports.iter().find(|port| {
        let before = seen.insert(&port.public, &port.own);
        before.is_some_and(|own| *own != port.own)
    });
    match twice {
        Some(port) => Err(ModelLoadError::unfit(format!(
            "two {side}s of the model would have the name `{}`",
            port.public
        ))),
        None => Ok(ports),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::{Side, publish};

    fn publish_ab(names: &[(&str, &str)]) -> Result<Vec<String>, String> {
        let own = ["a", "b"].map(|name| (name.to_owned(), None)).to_vec();
        let names: BTreeMap<String, String> = names
            .iter()
            .map(|&(own, public)| (own.to_owned(), public.to_owned()))
            .collect();
        let mut stale = Vec::new();
        let ports =
            publish(Side::Input, own, &names, &mut stale).map_err(|error| error.to_string())?;
        let public = ports.into_iter().map(|port| port.public);
        Ok(public.chain(stale).collect())
    }

    #[test]
    fn some_tensors_have_another_name_for_clients() {
        assert_eq!(publish_ab(&[]).unwrap(), ["a", "b"]);
        assert_eq!(publish_ab(&[("b", "image")]).unwrap(), ["a", "image"]);
        assert_eq!(publish_ab(&[("a", "b"), ("b", "a")]).unwrap(), ["b", "a"]);
        assert_eq!(publish_ab(&[("a", ""), ("b", "")]).unwrap(), ["a", "b"]);
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
    fn outputs_that_are_one_tensor_have_one_name() {
        for name in ["a", "scores"] {
            let own = ["a", "a"].map(|name| (name.to_owned(), None)).to_vec();
            let names = BTreeMap::from([("a".to_owned(), name.to_owned())]);
            let ports = publish(Side::Output, own, &names, &mut Vec::new()).unwrap();
            assert!(ports.iter().all(|port| port.public == name), "{ports:?}");
        }
    }

    #[test]
    fn two_tensors_of_one_name_are_refused() {
        insta::assert_snapshot!(
            publish_ab(&[("a", "b")]).unwrap_err(),
            @"two inputs of the model would have the name `b`"
        );
    }
}
