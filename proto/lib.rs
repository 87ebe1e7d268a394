//! Messages and services compiled from `proto/`.

/// Fields of messages as REST has them in JSON: enums by their names, and numbers as texts.
mod json {
    use serde::Serializer;

    use crate::{kserve, tensorflow, tensorflow_serving::model_version_status};

    pub(crate) fn data_type<S: Serializer>(number: &i32, to: S) -> Result<S::Ok, S::Error> {
        let data_type = kserve::DataType::try_from(*number);
        to.serialize_str(data_type.unwrap_or_default().as_str_name())
    }

    pub(crate) fn dtype<S: Serializer>(number: &i32, to: S) -> Result<S::Ok, S::Error> {
        let dtype = tensorflow::DataType::try_from(*number);
        to.serialize_str(dtype.unwrap_or_default().as_str_name())
    }

    pub(crate) fn state<S: Serializer>(number: &i32, to: S) -> Result<S::Ok, S::Error> {
        let state = model_version_status::State::try_from(*number);
        to.serialize_str(state.unwrap_or_default().as_str_name())
    }

    pub(crate) fn code<S: Serializer>(number: &i32, to: S) -> Result<S::Ok, S::Error> {
        let code = tensorflow::error::Code::try_from(*number);
        to.serialize_str(code.unwrap_or_default().as_str_name())
    }

    pub(crate) fn digits<S: Serializer>(number: &i64, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(number)
    }
}

/// KServe v2: package `inference`.
#[expect(missing_docs, reason = "generated; the .proto file has the comments")]
#[allow(
    clippy::all,
    clippy::pedantic,
    clippy::allow_attributes,
    unreachable_pub,
    reason = "generated code, whose lints change with the generator"
)]
pub mod kserve {
    tonic::include_proto!("inference");
}

/// TensorFlow: package `tensorflow` and those below it.
#[expect(missing_docs, reason = "generated; the .proto files have the comments")]
#[allow(
    clippy::all,
    clippy::pedantic,
    clippy::allow_attributes,
    unreachable_pub,
    reason = "generated code, whose lints change with the generator"
)]
pub mod tensorflow {
    tonic::include_proto!("tensorflow");

    pub mod error {
        tonic::include_proto!("tensorflow.error");
    }

    pub mod serving {
        tonic::include_proto!("tensorflow.serving");
    }
}

/// TensorFlow Serving: package `tensorflow.serving`.
pub use tensorflow::serving as tensorflow_serving;

/// Graphs of calculators and their options: package `mediapipe`.
#[expect(missing_docs, reason = "generated; the .proto files have the comments")]
#[allow(
    clippy::all,
    clippy::pedantic,
    clippy::allow_attributes,
    unreachable_pub,
    reason = "generated code, whose lints change with the generator"
)]
pub mod mediapipe {
    tonic::include_proto!("mediapipe");
}

/// Compiled descriptors of graphs and their options, with extensions, for reading graph files.
pub const GRAPH_DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/mediapipe.bin"));

/// Compiled descriptors of all services, for server reflection.
pub const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"));
