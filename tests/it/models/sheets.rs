//! Commands and what they say, as the sheets of `tests/conformance/models` have it.

use crate::support::sheet::sheets;

sheets!("models": folders loading refused reload_config reload_names served several);
