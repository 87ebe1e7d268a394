//! Calculators of which there is one for each kind of element: their names and what they carry.

use crate::graph::{Factory, NodeSpec, PacketType, TensorKind};

/// A calculator for elements of one kind.
pub(super) struct Typed {
    /// The calculator.
    pub(super) factory: Factory,
    /// The kind.
    pub(super) element: PacketType,
}

/// Finds the kind of element of a node's calculator.
pub(super) fn element(family: &[Typed], node: &NodeSpec) -> PacketType {
    let mut all = family.iter();
    all.find(|typed| typed.factory.name == node.calculator)
        .map_or(PacketType::Any, |typed| typed.element.clone())
}

/// Says that something is a list of these.
pub(super) fn list_of(element: &PacketType) -> PacketType {
    PacketType::List(Box::new(element.clone()))
}

/// MediaPipe's tensor.
pub(super) const TENSOR: PacketType = PacketType::Tensor(TensorKind::MediaPipe);
/// OpenVINO's tensor.
pub(super) const OV_TENSOR: PacketType = PacketType::Tensor(TensorKind::OpenVino);
/// TensorFlow's tensor.
pub(super) const TF_TENSOR: PacketType = PacketType::Tensor(TensorKind::TensorFlow);
/// TensorFlow Lite's tensor.
pub(super) const TF_LITE_TENSOR: PacketType = PacketType::Tensor(TensorKind::TfLite);
/// A picture.
pub(super) const IMAGE: PacketType = PacketType::Tensor(TensorKind::Image);

/// Makes the calculators of a family: `Before` + word + `After` for each word.
macro_rules! family {
    ($before:literal, $after:literal, $about:literal, $contract:path, $make:expr,
     [$(($word:literal, $element:expr)),* $(,)?]) => {
        &[$(super::elements::Typed {
            factory: $crate::graph::Factory {
                name: concat!($before, $word, $after),
                about: $about,
                contract: $contract,
                make: $make,
            },
            element: $element,
        }),*]
    };
}
pub(super) use family;

/// Makes the calculators of a family that has the kinds of all families of lists, and some of its
/// own, which not all families have, or not by the same word.
macro_rules! every_kind {
    ($before:literal, $after:literal, $about:literal, $contract:path, $make:expr,
     [$($own:tt),* $(,)?]) => {
        super::elements::family!(
            $before,
            $after,
            $about,
            $contract,
            $make,
            [
                ("Float", $crate::graph::PacketType::Float),
                ("Image", super::elements::IMAGE),
                ("OVTensor", super::elements::OV_TENSOR),
                ("PyTensor", $crate::graph::PacketType::Python),
                ("String", $crate::graph::PacketType::Text),
                ("TFTensor", super::elements::TF_TENSOR),
                ("Tensor", super::elements::TENSOR),
                ("TfLiteTensor", super::elements::TF_LITE_TENSOR),
                $($own),*
            ]
        )
    };
}
pub(super) use every_kind;
