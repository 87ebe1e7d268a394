//! Messages and services compiled from `proto/`; nothing here is written by hand.

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
