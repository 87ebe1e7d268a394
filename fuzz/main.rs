//! libFuzzer over one target of the library, which `FUZZ_TARGET` names. `make fuzz` builds and runs it; the targets
//! are in `src/fuzzing/mod.rs`.
#![no_main]

use std::sync::LazyLock;

use ovms::fuzzing::FuzzTarget;

static TARGET: LazyLock<&FuzzTarget> = LazyLock::new(|| {
    let name = std::env::var("FUZZ_TARGET").unwrap_or_default();
    FuzzTarget::find(&name).unwrap_or_else(|| {
        panic!(
            "FUZZ_TARGET is {name:?}; expected one of {}",
            FuzzTarget::names().collect::<Vec<_>>().join(", ")
        )
    })
});

libfuzzer_sys::fuzz_target!(init: LazyLock::force(&TARGET), |data: &[u8]| TARGET.run(data));
