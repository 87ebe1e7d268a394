//! Requests and commands with their answers, as the sheets of `tests/conformance/ops` have them.

use crate::support::sheet::sheets;

sheets!("ops": check check_depth dashboard metrics python_environments serve_check);
