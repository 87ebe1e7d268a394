//! Calculators with a variant for each element type: their names and types.

use super::prelude::*;
use crate::graph::calculators::packet::TensorKind;

/// Returns the element type that a word in the name of a calculator stands for.
pub(super) fn element(word: &str) -> PacketType {
    match word {
        "Bool" | "Boolean" => PacketType::Bool,
        "Float" => PacketType::Float,
        "Image" | "ImageFrame" => PacketType::Tensor(TensorKind::Image),
        "Int" | "Int32" | "Int64" | "Integer" | "Integers" => PacketType::Int,
        "OVTensor" => PacketType::Tensor(TensorKind::OpenVino),
        "PyTensor" => PacketType::Python,
        "String" => PacketType::Text,
        "TFTensor" => PacketType::Tensor(TensorKind::TensorFlow),
        "Tensor" => PacketType::Tensor(TensorKind::MediaPipe),
        "TfLiteTensor" => PacketType::Tensor(TensorKind::TfLite),
        "UInt64" | "Uint" | "Uint32" | "Uint64" | "Uint64t" => PacketType::UInt,
        _ => PacketType::Any,
    }
}

/// Returns the type of a list of elements.
pub(super) fn list_of(element: &PacketType) -> PacketType {
    PacketType::List(Box::new(element.clone()))
}

/// Defines the calculators of a family: `Before` + word + `After` for each word. The contract is
/// also given the element type.
macro_rules! variants {
    ($before:literal, $after:literal, $about:literal, $contract:path, $make:expr,
     [$($word:literal),* $(,)?]) => {
        &[$($crate::graph::calculators::calculator::Factory {
            name: concat!($before, $word, $after),
            about: $about,
            contract: |ask| $contract(ask, &$crate::graph::calculators::stock::elements::element($word)),
            make: $make,
        }),*]
    };
}
pub(super) use variants;

/// Defines the calculators of a family with the words common to all list families, and its own.
macro_rules! typed {
    ($before:literal, $after:literal, $about:literal, $contract:path, $make:expr,
     [$($own:literal),* $(,)?]) => {
        $crate::graph::calculators::stock::elements::variants!(
            $before,
            $after,
            $about,
            $contract,
            $make,
            [
                "Float", "Image", "OVTensor", "PyTensor", "String", "TFTensor", "Tensor",
                "TfLiteTensor", $($own),*
            ]
        )
    };
}
pub(super) use typed;
