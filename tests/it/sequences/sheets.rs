//! Commands and what they say, as the sheets of `tests/conformance/sequences` have it.

use crate::support::sheet::sheets;

sheets!("sequences": errors infer saved sounds);
