//! Commands to try the servables, ready to copy.

use ovms::model::demo;

use super::Summary;

/// Way to try a servable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tries {
    /// Random inputs.
    Random,
    /// Sequence of random inputs.
    Sequence,
    /// Metadata first, as its inputs have no types, or random inputs may not work.
    Look,
}

impl Summary {
    /// Returns commands to try the servables.
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
        let how = match first.tries {
            Tries::Random => "--random",
            Tries::Sequence => "--random --start --end",
            Tries::Look => "--metadata",
        };
        let mut tries = vec![self.infer(&format!("{name} {how}"), None)];
        if let Some(rest) = &self.rest
            && is_plain(&first.name)
        {
            tries.push(format!("curl http://{}/v2/models/{name}", rest.address()));
        }
        tries
    }

    /// Returns a command of `ovms infer`, with the address if it is not the default one.
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

/// Returns the arguments to try the example, except the server's address.
pub(in crate::serve) fn demo_arguments(folder: &str) -> String {
    format!(
        "{} -i @{folder}/star.png --top 3 --labels {folder}/labels.txt",
        demo::NAME
    )
}

/// Returns whether a name needs no quotes in a shell and no escapes in a URL.
fn is_plain(name: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    !name.is_empty() && !name.starts_with('-') && name.chars().all(is_plain)
}

/// Quotes a name for a shell.
fn quoted(name: &str) -> String {
    match is_plain(name) {
        true => name.to_owned(),
        false => format!("'{}'", name.replace('\'', r"'\''")),
    }
}
