//! Summary of the servables, ports, and commands to try, shown once after the first load.
//!
//! On a terminal it is a block of its own; elsewhere it is lines of the log, or one event of a log
//! in JSON. Reasons for missing servables are in the log before.

use std::path::PathBuf;

use ovms::{
    config::{LogFormat, ServerSettings},
    engine::{Engine, Servable, ServableFacts, reload::ReloadError},
    error::chain,
    model::demo,
    python,
    servable::ServableInfo,
    tensor::Dim,
};

use crate::ui::{counted, listed, visible, wrapped};

/// Maximum number of servables listed one by one.
const MAX_SERVABLES: usize = 8;

/// Maximum number of models without versions listed one by one.
const MAX_EMPTY: usize = 4;

/// Maximum number of names in an event.
const MAX_NAMES: usize = 100;

/// Width of the column of names.
const NAMES: usize = 12;

/// Servable that is served.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Entry {
    kind: &'static str,
    name: String,
    /// Versions, device, state; empty if there is nothing to add.
    about: String,
    tries: Tries,
}

/// Listening address of a protocol.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Place {
    /// Host as used by a client on this machine.
    host: String,
    port: u16,
    is_tls: bool,
    /// Additional information.
    about: String,
}

/// Contents of the summary.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Summary {
    openvino: String,
    python: Option<String>,
    grpc: Option<Place>,
    rest: Option<Place>,
    management: Option<Place>,
    /// Paths of the Unix sockets.
    grpc_socket: Option<String>,
    rest_socket: Option<String>,
    has_dashboard: bool,
    /// Devices of this machine.
    pub(super) devices: Vec<String>,
    served: Vec<Entry>,
    /// Number of configured servables that are not served.
    missing: usize,
    /// Number of errors; the log has them.
    failed: usize,
    /// Names of models without versions.
    empty: Vec<String>,
    /// Folder of the example, if that is served.
    pub(super) demo: Option<String>,
}

impl Summary {
    /// Creates the summary.
    pub(super) fn new(
        settings: &ServerSettings,
        openvino: &str,
        engine: &Engine,
        errors: &[ReloadError],
    ) -> Self {
        let servables = engine.servables();
        let served: Vec<Entry> = servables.iter().filter_map(Entry::of).collect();
        let python = python::describe();
        // No versions are no error: they may come. Where the folder could not be read, that has been said.
        let said: Vec<String> = errors.iter().map(|error| chain(error)).collect();
        let models = servables.iter().filter_map(Servable::model);
        let empty = models.filter(|model| model.versions().is_empty());
        let empty = empty.map(|model| format!("`{}`", model.name()));
        let empty = empty.filter(|name| !said.iter().any(|text| text.contains(name)));
        let empty = empty.collect();
        let management = &settings.management_bind_addresses;
        let (grpc_socket, rest_socket) = sockets(settings);
        let tls = settings.tls.as_ref();
        Self {
            openvino: openvino.split('-').next().unwrap_or(openvino).to_owned(),
            // `Python 3.11.2 of …`
            python: python.map(|text| text.split(" of ").next().unwrap_or_default().to_owned()),
            grpc: Place::of(
                settings.port,
                &settings.grpc_bind_addresses,
                tls.is_some_and(|tls| tls.grpc),
            ),
            rest: Place::of(
                settings.rest_port,
                &settings.rest_bind_addresses,
                tls.is_some_and(|tls| tls.rest),
            ),
            management: Place::of(
                settings.management_port,
                management,
                tls.is_some_and(|tls| tls.management),
            ),
            grpc_socket,
            rest_socket,
            has_dashboard: !settings.flags.no_dashboard,
            devices: Vec::new(),
            missing: servables.len() - served.len(),
            served,
            failed: errors.len(),
            empty,
            demo: None,
        }
    }

    /// Writes the summary to the log.
    pub(super) fn log(&self, format: LogFormat) {
        if format == LogFormat::Json {
            let names: Vec<&str> = self.served.iter().map(|it| it.name.as_str()).collect();
            tracing::info!(
                served = self.served.len(),
                failed = self.missing,
                names = names.get(..MAX_NAMES).unwrap_or(&names).join(","),
                grpc = self.grpc.as_ref().map(Place::grpc),
                rest = self.rest.as_ref().map(Place::rest),
                management = self.management.as_ref().map(Place::rest),
                grpc_unix_socket = self.grpc_socket,
                rest_unix_socket = self.rest_socket,
                openvino = self.openvino,
                python = self.python,
                "serving"
            );
            return;
        }
        tracing::info!("{}", self.heading());
        for (name, texts) in self.rows(false) {
            for text in texts {
                tracing::info!("  {name}: {text}");
            }
        }
    }

    /// Returns the summary as a block for a terminal, with empty lines around it.
    pub(super) fn drawn(&self, columns: Option<usize>) -> String {
        let mut lines = wrapped(&self.heading(), columns);
        let room = columns.map(|columns| columns.saturating_sub(NAMES + 2));
        for (name, texts) in self.rows(true) {
            let mut shown = name;
            for text in texts {
                // What is copied stays in one piece.
                let room = if name == "try" { None } else { room };
                for line in wrapped(&visible(&text), room) {
                    lines.push(format!("  {shown:<NAMES$}{line}").trim_end().to_owned());
                    shown = "";
                }
            }
        }
        format!("\n{}\n\n", lines.join("\n"))
    }

    fn heading(&self) -> String {
        let count = |kind: &str| self.served.iter().filter(|it| it.kind == kind).count();
        let kinds = ["model", "pipeline", "graph"].into_iter();
        let kinds = kinds.filter(|kind| count(kind) > 0);
        let kinds: Vec<String> = kinds.map(|kind| counted(count(kind), kind)).collect();
        let served = match kinds.is_empty() {
            true => "nothing".to_owned(),
            false => listed(&kinds),
        };
        let missing = match self.missing {
            0 => String::new(),
            missing => format!(" ({missing} not served)"),
        };
        let python = self.python.as_ref();
        let python = python.map_or_else(String::new, |python| format!(" and {python}"));
        format!(
            "ovms {} serves {served}{missing}, with OpenVINO {}{python}",
            env!("CARGO_PKG_VERSION"),
            self.openvino
        )
    }

    /// Returns the rows below the heading: a name, and one or more lines.
    fn rows(&self, is_terminal: bool) -> Vec<(&'static str, Vec<String>)> {
        let (rest, management) = (self.rest.as_ref(), self.management.as_ref());
        let http = |place: &Place| place.http() + &place.about;
        let dashboard = rest.or(management).filter(|_| self.has_dashboard);
        let at_socket = |path: &Option<String>| path.as_ref().map(|path| format!("unix:{path}"));
        let both = |one: Option<String>, other| one.into_iter().chain(other).collect();
        let grpc = self.grpc.as_ref();
        let grpc = grpc.map(|place| place.grpc() + &place.about);
        let one = |text: Option<String>| text.into_iter().collect();
        let mut rows: Vec<(&str, Vec<String>)> = vec![
            ("gRPC", both(grpc, at_socket(&self.grpc_socket))),
            ("REST", both(rest.map(http), at_socket(&self.rest_socket))),
            (
                "dashboard",
                one(dashboard.map(|place| place.http() + "/dashboard")),
            ),
            ("management", one(management.map(http))),
            (
                "devices",
                one((!self.devices.is_empty()).then(|| self.devices.join(", "))),
            ),
        ];
        rows.retain(|(_, texts)| !texts.is_empty());
        let reported = self.served.iter().take(MAX_SERVABLES);
        rows.extend(reported.map(|it| (it.kind, vec![it.name.clone() + &it.about])));
        if self.served.len() > MAX_SERVABLES {
            let more = self.served.len() - MAX_SERVABLES;
            let all = self.infer("--status", Some("--status"));
            rows.push(("and", vec![format!("{more} more: {all}")]));
        }
        let named = self.empty.iter().take(MAX_EMPTY);
        let mut missing: Vec<String> = named
            .map(|name| format!("model {name} has no version to serve"))
            .collect();
        if self.empty.len() > MAX_EMPTY {
            let more = counted(self.empty.len() - MAX_EMPTY, "more model");
            missing.push(format!("{more} without a version"));
        }
        if self.failed > 0 {
            missing.push(format!("{}, see above", counted(self.failed, "error")));
        }
        if !missing.is_empty() {
            rows.push(("missing", missing));
        }
        let tries = self.tries(is_terminal);
        if !tries.is_empty() {
            rows.push(("try", tries));
        }
        rows
    }
}

impl Entry {
    /// Returns the entry of a servable; `None` if it is not served.
    fn of(servable: &Servable) -> Option<Self> {
        let available = servable.available();
        let newest = available.last()?;
        let facts = servable.part(Some(*newest)).and_then(|part| part.loaded());
        let (kind, about, tries) = match (servable, facts) {
            (Servable::Model(_), Ok(ServableFacts::Model(loaded))) => {
                let numbers: Vec<String> = available.iter().map(ToString::to_string).collect();
                let plural = if numbers.len() == 1 { "" } else { "s" };
                let (state, tries) = match loaded.is_stateful() {
                    true => (", stateful", Tries::Sequence),
                    false => ("", random(&loaded.info)),
                };
                let device = &loaded.spec.options.device;
                let about = format!(", version{plural} {} on {device}{state}", listed(&numbers));
                ("model", about, tries)
            }
            (Servable::Model(_), _) => return None,
            (Servable::Pipeline(_), facts) => {
                let tries = match facts.is_ok_and(|facts| facts.is_split()) {
                    true => Tries::Look,
                    false => Tries::Random,
                };
                ("pipeline", String::new(), tries)
            }
            (Servable::Graph(_), _) => ("graph", String::new(), Tries::Look),
        };
        Some(Self {
            kind,
            name: servable.name().to_owned(),
            about,
            tries,
        })
    }
}

impl Place {
    fn of(port: Option<u16>, addresses: &[String], is_tls: bool) -> Option<Self> {
        let everywhere = addresses.iter().any(|it| it == "0.0.0.0" || it == "::");
        let here = |address: &String| address == "localhost" || address == "127.0.0.1";
        let host = match addresses.first() {
            _ if everywhere || addresses.iter().any(here) => "localhost".to_owned(),
            Some(address) if address.contains(':') => format!("[{address}]"),
            Some(address) => address.clone(),
            None => "localhost".to_owned(),
        };
        let others: Vec<&str> = addresses.iter().map(String::as_str).collect();
        let about = match (everywhere, others.len()) {
            (true, _) => " (all addresses of this machine)".to_owned(),
            (false, 0 | 1) => String::new(),
            (false, _) => format!(" ({})", others.join(", ")),
        };
        Some(Self {
            host,
            port: port?,
            is_tls,
            about,
        })
    }

    fn address(&self) -> String {
        format!("{}:{}", self.host, self.port)
    }

    /// Returns the address for clients of gRPC.
    fn grpc(&self) -> String {
        let scheme = if self.is_tls { "grpcs://" } else { "" };
        format!("{scheme}{}", self.address())
    }

    /// Returns the address for clients of REST.
    fn rest(&self) -> String {
        let scheme = if self.is_tls { "https://" } else { "" };
        format!("{scheme}{}", self.address())
    }

    /// Returns the URL without a path.
    fn http(&self) -> String {
        let scheme = if self.is_tls { "https" } else { "http" };
        format!("{scheme}://{}", self.address())
    }
}

/// Way to try a servable.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Tries {
    /// Random inputs.
    Random,
    /// Random inputs; those that are longer than 1 at least where their length is free, with their least shapes.
    Shaped(String),
    /// Sequence of random inputs.
    Sequence,
    /// Metadata first, as its inputs have no types, or random inputs may not work.
    Look,
}

/// Returns how to try a model with random inputs, of which those with free lengths have 1.
fn random(info: &ServableInfo) -> Tries {
    let is_long = |dim: &Dim| matches!(dim, Dim::Range(least, _) if *least > 1);
    let inputs = info.inputs.iter();
    let long = inputs.filter(|input| input.shape.0.iter().any(is_long));
    let shaped: String = long
        .map(|input| {
            let least: Vec<_> = input
                .shape
                .0
                .iter()
                .map(|dim| dim.least().max(1).to_string())
                .collect();
            format!(
                "-i {} ",
                quoted(&format!("{}::{}=", input.name, least.join(",")))
            )
        })
        .collect();
    match shaped.is_empty() {
        true => Tries::Random,
        false => Tries::Shaped(shaped),
    }
}

impl Summary {
    /// Returns commands to try the servables.
    fn tries(&self, is_terminal: bool) -> Vec<String> {
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
        let how = match &first.tries {
            Tries::Random => "--random",
            Tries::Shaped(inputs) => &format!("{inputs}--random"),
            Tries::Sequence => "--random --start --end",
            Tries::Look => "--metadata",
        };
        let mut tries = vec![self.infer(&format!("{name} {how}"), None)];
        let url = match (&self.rest, &self.rest_socket) {
            (Some(rest), _) => Some(rest.http()),
            (None, Some(path)) => Some(format!(
                "--unix-socket {} http://localhost",
                quoted_path(path)
            )),
            (None, None) => None,
        };
        if let Some(url) = url
            && is_plain(&first.name)
        {
            tries.push(format!("curl {url}/v2/models/{name}"));
        }
        tries
    }

    /// Returns a command of `ovms infer`, with the address if it is not the default one.
    fn infer(&self, arguments: &str, usual: Option<&str>) -> String {
        let url = |place: &Place, port, url: String| match place.host == "localhost"
            && place.port == port
            && !place.is_tls
        {
            true => String::new(),
            false => format!(" --url {url}"),
        };
        let at_socket = |path: &str| format!(" --url unix:{}", quoted_path(path));
        let (api, url) = match (&self.grpc, &self.grpc_socket, &self.rest, &self.rest_socket) {
            (Some(grpc), _, _, _) => ("", url(grpc, 9000, grpc.grpc())),
            (None, Some(path), _, _) => ("", at_socket(path)),
            (None, None, Some(rest), _) => (REST, url(rest, 8000, rest.rest())),
            (None, None, None, Some(path)) => (REST, at_socket(path)),
            _ => return format!("ovms infer {}", usual.unwrap_or(arguments)),
        };
        format!("ovms infer {arguments}{api}{url}")
    }
}

/// Flag of `ovms infer` where gRPC is not served.
const REST: &str = " --api kserve-rest";

/// Returns the paths of the Unix sockets, for any folder.
fn sockets(settings: &ServerSettings) -> (Option<String>, Option<String>) {
    let path = |path: &Option<PathBuf>| {
        let path = path.as_ref()?;
        let path = std::path::absolute(path).unwrap_or_else(|_| path.clone());
        Some(path.display().to_string())
    };
    let flags = &settings.flags;
    (path(&flags.grpc_unix_socket), path(&flags.rest_unix_socket))
}

/// Returns the flags of `ovms infer` that lead to the server, with a blank before them.
pub(in crate::serve) fn demo_server(settings: &ServerSettings) -> String {
    let at_socket = |path: &str| format!("unix:{}", quoted_path(path));
    let tls = settings.tls.as_ref();
    let scheme = |has_tls: bool, scheme| if has_tls { scheme } else { "" };
    let grpc = scheme(tls.is_some_and(|tls| tls.grpc), "grpcs://");
    let rest = scheme(tls.is_some_and(|tls| tls.rest), "https://");
    match (settings.port, settings.rest_port, sockets(settings)) {
        (Some(port), _, _) => format!(" --url {grpc}localhost:{port}"),
        (None, _, (Some(path), _)) => format!(" --url {}", at_socket(&path)),
        (None, Some(port), _) => format!("{REST} --url {rest}localhost:{port}"),
        (None, None, (_, Some(path))) => format!("{REST} --url {}", at_socket(&path)),
        (None, None, (None, None)) => String::new(),
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

/// Quotes a path for a shell if it needs quotes.
fn quoted_path(path: &str) -> String {
    match path
        .split('/')
        .all(|part| part.is_empty() || is_plain(part))
    {
        true => path.to_owned(),
        false => format!("'{}'", path.replace('\'', r"'\''")),
    }
}

/// Quotes a name for a shell.
fn quoted(name: &str) -> String {
    match is_plain(name) {
        true => name.to_owned(),
        false => format!("'{}'", name.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests;
