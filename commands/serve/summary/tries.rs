//! How to try what is served: commands that can be copied.

use ovms::model::demo;

use super::Summary;

/// How something is tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tries {
    /// With whatever fits.
    Random,
    /// With a sequence of that.
    Sequence,
    /// Its inputs have no types, or not all that fits them works, so that they are looked at first.
    Look,
}

impl Summary {
    /// Returns commands that ask for something that is served.
    pub(super) fn tries(&self, is_terminal: bool) -> Vec<String> {
        if let Some(folder) = &self.demo {
            // The log has it from the start.
            return match is_terminal {
                true => vec![self.infer(&demo_arguments(folder), None)],
                false => Vec::new(),
            };
        }
        // A name that begins like a flag is none on a command line.
        let mut names = self.served.iter();
        let Some(first) = names.find(|it| !it.name.starts_with('-')) else {
            return Vec::new();
        };
        let name = quoted(&first.name);
        let mut tries = vec![match first.tries {
            Tries::Random => self.infer(&format!("{name} --random"), None),
            Tries::Sequence => self.infer(&format!("{name} --random --start --end"), None),
            Tries::Look => self.infer(&format!("{name} --metadata"), None),
        }];
        if let Some(rest) = &self.rest
            && is_plain(&first.name)
        {
            tries.push(format!("curl http://{}/v2/models/{name}", rest.address()));
        }
        tries
    }

    /// Returns a command of `ovms infer`, with the address if it is not the usual one.
    pub(super) fn infer(&self, arguments: &str, usual: Option<&str>) -> String {
        let (api, place, port) = match (&self.grpc, &self.rest) {
            (Some(grpc), _) => ("", grpc, 9000),
            (None, Some(rest)) => (" --api kserve-rest", rest, 8000),
            (None, None) => return format!("ovms infer {}", usual.unwrap_or(arguments)),
        };
        let url = match place.host == "localhost" && place.port == port {
            true => String::new(),
            false => format!(" --url {}", place.address()),
        };
        format!("ovms infer {arguments}{api}{url}")
    }
}

/// Returns how the example is asked, but for the server's address.
pub(in crate::serve) fn demo_arguments(folder: &str) -> String {
    format!(
        "{} -i @{folder}/star.png --top 3 --labels {folder}/labels.txt",
        demo::NAME
    )
}

/// Tells whether a name stands for itself in a shell and in a URL.
fn is_plain(name: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    !name.is_empty() && !name.starts_with('-') && name.chars().all(is_plain)
}

/// Writes a name for a shell.
fn quoted(name: &str) -> String {
    match is_plain(name) {
        true => name.to_owned(),
        false => format!("'{}'", name.replace('\'', r"'\''")),
    }
}
