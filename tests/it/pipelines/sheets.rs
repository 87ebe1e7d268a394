//! Requests and commands with their answers, as the sheets of `tests/conformance/pipelines` have them.

use crate::support::sheet::sheets;

sheets!("pipelines": check check_files names new new_files python python_errors python_run refusals reload run serving show);
