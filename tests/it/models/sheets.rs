//! Commands and what they say, as the sheets of `tests/conformance/models` have it.

use crate::support::sheet::sheets;

sheets!("models": refused reload_config served);
