//! OpenVINO runtime: its location, state, and devices.

use ovms::openvino::runtime::{self, FoundRuntime, PINNED_VERSION, SearchedPlace};

use super::report::{Check, Status};
use crate::{places, setup};

/// Checks the runtime and its devices.
pub(super) fn all() -> Vec<Check> {
    let search = places::all();
    let looked = runtime::survey(&search);
    let found = match runtime::find(&search) {
        Ok(found) => found,
        Err(error) => {
            let failure = setup::explain(&error);
            let check = Check::new("runtime", Status::Fail, failure.message());
            let check = with_places(check, &looked, None, false);
            return vec![failure.hints().iter().cloned().fold(check, Check::hint)];
        }
    };
    let library = format!("{}, {}", found.origin, found.library.display());
    // The environment shows the library's location as well, in one line.
    let place = places::environment_of(&found.library).unwrap_or_else(|| found.library.clone());
    let check = match setup::probe_apart(&found) {
        Ok(version) => {
            let text = format!("OpenVINO {version}, works");
            let place = format!("from {}, {}", found.origin, place.display());
            let check = Check::new("runtime", Status::Ok, text).detail(place);
            match version.starts_with(PINNED_VERSION) {
                true => check,
                false => check.detail(format!("this ovms is tested with {PINNED_VERSION}")),
            }
        }
        Err(failure) => {
            let check = Check::new("runtime", Status::Fail, failure.message());
            let check = check.detail(format!("from {library}"));
            let check = with_places(check, &looked, Some(&found), false);
            let hint = "mend or remove it, or run `ovms setup --dir DIR` and set \
                        OPENVINO_INSTALL_DIR to DIR";
            return vec![check.hint(hint)];
        }
    };
    let check = with_places(check, &looked, Some(&found), true);
    vec![check, devices(&found)]
}

fn devices(found: &FoundRuntime) -> Check {
    match setup::devices(found) {
        Ok(devices) if devices.is_empty() => {
            Check::new("devices", Status::Warn, "the runtime knows no device")
                .hint("the plugins belong beside the library; `ovms setup` gets all of them")
        }
        Ok(devices) => Check::new("devices", Status::Ok, setup::named(&devices).join(", ")),
        Err(failure) => Check::new("devices", Status::Warn, failure.message())
            .hint("the driver of a device may be broken; --target_device CPU does without"),
    }
}

/// Adds the other searched places to a check.
fn with_places(
    mut check: Check,
    looked: &[SearchedPlace],
    used: Option<&FoundRuntime>,
    works: bool,
) -> Check {
    let is_other = |place: &&SearchedPlace| used.is_none_or(|used| used.origin != place.origin);
    for place in looked.iter().filter(is_other) {
        let origin = &place.origin;
        let text = match (&place.library, &place.folder) {
            (Some(library), _) => format!("another one in {origin}, {}", library.display()),
            // Nobody needs more than one.
            (None, _) if works => continue,
            (None, Some(folder)) => format!("none in {origin}, {}", folder.display()),
            (None, None) => format!("none in {origin}"),
        };
        check = check.detail(text);
    }
    check
}
