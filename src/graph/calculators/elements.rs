//! Calculators with a variant for each element type: their names and types.

use crate::graph::{
    calculator::Factory,
    node::NodeSpec,
    packet::{PacketType, TensorKind},
};

/// Calculator for elements of one type.
pub(super) struct Typed {
    /// Factory of the calculator.
    pub(super) factory: Factory,
    /// Element type.
    pub(super) element: PacketType,
}

/// Returns the element type of a node's calculator.
pub(super) fn element(family: &[Typed], node: &NodeSpec) -> PacketType {
    let mut all = family.iter();
    all.find(|typed| typed.factory.name == node.calculator)
        .map_or(PacketType::Any, |typed| typed.element.clone())
}

/// Returns the type of a list of elements.
pub(super) fn list_of(element: &PacketType) -> PacketType {
    PacketType::List(Box::new(element.clone()))
}

/// MediaPipe tensor.
pub(super) const TENSOR: PacketType = PacketType::Tensor(TensorKind::MediaPipe);
/// OpenVINO tensor.
pub(super) const OV_TENSOR: PacketType = PacketType::Tensor(TensorKind::OpenVino);
/// TensorFlow tensor.
pub(super) const TF_TENSOR: PacketType = PacketType::Tensor(TensorKind::TensorFlow);
/// TensorFlow Lite tensor.
pub(super) const TF_LITE_TENSOR: PacketType = PacketType::Tensor(TensorKind::TfLite);
/// Image.
pub(super) const IMAGE: PacketType = PacketType::Tensor(TensorKind::Image);

/// Defines the calculators of a family: `Before` + word + `After` for each word.
macro_rules! family {
    ($before:literal, $after:literal, $about:literal, $contract:path, $make:expr,
     [$(($word:literal, $element:expr)),* $(,)?]) => {
        &[$(super::elements::Typed {
            factory: $crate::graph::calculator::Factory {
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

/// Defines the calculators of a family with the element types common to all list families, and
/// its own additional types or names.
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
                ("Float", $crate::graph::packet::PacketType::Float),
                ("Image", super::elements::IMAGE),
                ("OVTensor", super::elements::OV_TENSOR),
                ("PyTensor", $crate::graph::packet::PacketType::Python),
                ("String", $crate::graph::packet::PacketType::Text),
                ("TFTensor", super::elements::TF_TENSOR),
                ("Tensor", super::elements::TENSOR),
                ("TfLiteTensor", super::elements::TF_LITE_TENSOR),
                $($own),*
            ]
        )
    };
}
pub(super) use every_kind;
