//! Wire protocols: requests, responses, and refusals of KServe and TensorFlow Serving over gRPC and REST.

mod bad_clients;
mod grpc_services;
mod grpc_wire;
mod http_bounds;
mod http_refusals;
mod http_stop;
mod http_surface;
mod images;
mod kserve_grpc;
mod kserve_rest;
mod openapi;
mod rest_binary;
mod round_trip;
mod shared_memory;
mod sheets;
pub(crate) mod sizes;
mod strings;
mod tfs_bytes;
mod tfs_grpc;
mod tfs_rest;
mod triton_calls;
