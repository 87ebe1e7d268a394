//! The protocols: wire bytes to an [`InferRequest`](crate::request::InferRequest) and back.
//!
//! A frontend translates and does nothing else. It finds the target before it parses tensors, so
//! that the most basic error is the answer; KServe REST alone parses its body first, as its
//! clients expect. Codes come from [`crate::error::ErrorKind`], through `reply`.

pub mod access;
pub mod body;
mod cross_origin;
pub mod dashboard;
mod deadline;
mod expand;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzz;
mod gather;
pub mod grpc;
pub mod guard;
mod idempotency;
mod json_numbers;
pub mod kserve;
mod messages;
mod openapi;
mod priority;
pub mod received;
mod reply;
pub mod rest;
pub mod routes;
pub mod tfs;
mod unary;
mod v3;
mod weight;

/// The product name that metadata calls answer.
pub const SERVER_NAME: &str = "OpenVINO Model Server";

/// The release that metadata calls answer.
pub const SERVER_VERSION: &str = env!("CARGO_PKG_VERSION");
