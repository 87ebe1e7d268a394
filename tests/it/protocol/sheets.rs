//! Requests and their answers, as the sheets of `tests/conformance/protocol` have them.

use crate::support::sheet::sheets;

sheets!("protocol": binary_data datatypes generate inferences kserve_grpc kserve_rest kserve_rest_bodies names not_finite strings tfs_grpc tfs_rest triton_calls versions);
