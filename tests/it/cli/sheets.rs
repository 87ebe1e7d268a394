//! Commands and what they say, as the sheets of `tests/conformance/cli` have it.

use crate::support::sheet::sheets;

sheets!("cli": config_directives doctor exits infer infer_errors infer_flags infer_inputs infer_misfits infer_scripts infer_status infer_stream serve_flags setup);
