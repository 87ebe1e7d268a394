//! Requests and commands with their answers, as the sheets of `tests/conformance/ops` have them.

use crate::support::sheet::sheets;

sheets!("ops": metrics serve_check);
