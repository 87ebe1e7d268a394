//! Requests and commands with their answers, as the sheets of `tests/conformance/graphs` have them.

use crate::support::sheet::sheets;

sheets!("graphs": config flags models new python python_errors python_nodes reload run show);
