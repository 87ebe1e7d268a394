//! Commands and what they say, as the sheets of `tests/conformance/cli` have it.

use crate::support::sheet::sheets;

sheets!("cli": bench_flags completions config_directives doctor exits help_texts infer infer_detections infer_errors infer_flags infer_images infer_inputs infer_misfits infer_scripts infer_status infer_stream manual serve_booleans serve_flags serve_paths setup);
