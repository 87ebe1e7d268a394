//! The checks of the flags: the first that fails is the answer.

use std::{
    net::{Ipv4Addr, Ipv6Addr},
    path::PathBuf,
    sync::Arc,
};

use super::{
    FlagError, Flags, channel_arguments,
    flag::FlagScope::{AllModels, Model, ModelIgnored, Server},
    given,
    paths::{PathArguments, named},
};
use crate::{
    budget::{self, Budget},
    byte_size::ByteSize,
    config::{
        Config, ConfigSource, PathSource, batching,
        file::{Defaults, FileConfig, GraphConfig},
        plugin, preprocessing,
        settings::{
            CheckDepth, ClientAuth, MetricsSettings, ModelConfig, ServerSettings, TlsSettings,
            TlsVersion,
        },
        shape, version_policy,
    },
    openvino::{Batching, PerTensor, Placement, Preprocessing, batch_budget},
    shared_memory::KeyPrefix,
    trace,
};

/// The log levels, from all to least.
const LOG_LEVELS: [&str; 5] = ["TRACE", "DEBUG", "INFO", "WARNING", "ERROR"];

/// Ports for gRPC and REST if models are named by their paths and no port is given.
const USUAL_PORTS: (u32, u32) = (9000, 8000);

/// Ports that are given as 0, which is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ClosedPorts {
    /// The port for gRPC.
    pub grpc: bool,
    /// The port for REST.
    pub rest: bool,
}

impl ClosedPorts {
    /// Returns ports for gRPC and REST, with 0 in place of those that are given as that.
    pub fn of(self, (grpc, rest): (u32, u32)) -> (u32, u32) {
        let open = |is_closed: bool, port: u32| if is_closed { 0 } else { port };
        (open(self.grpc, grpc), open(self.rest, rest))
    }
}

/// Flags about the inputs of a model.
const OF_TENSORS: [&str; 7] = [
    "batch_size",
    "shape",
    "layout",
    "mean",
    "scale",
    "color_format",
    "precision",
];

/// Flags that say more of the TLS of ports, where there is any.
const OF_TLS: [&str; 3] = [
    "tls_poll_wait_seconds",
    "tls_handshake_timeout_seconds",
    "max_tls_handshakes",
];

/// Default cache folder of compiled models, used if it exists and no other is named.
const CACHE_DIR: &str = "/opt/cache";

/// Flag values from the environment of the process.
#[derive(Debug, Clone, Default)]
pub struct FlagEnvironment {
    /// `GRPC_SERVERS`: a number above 0 overrides `grpc_workers`.
    pub grpc_servers: Option<String>,
    /// `API_KEY`: the key if there is no `api_key_file`.
    pub api_key: Option<String>,
}

impl Config {
    /// Checks flags.
    ///
    /// # Errors
    ///
    /// Fails with the first flag that is not accepted.
    pub fn from_flags(flags: Flags, environment: &FlagEnvironment) -> Result<Self, FlagError> {
        Self::of(flags, None, environment)
    }

    /// Checks flags beside models that are named by their paths, and those of `model_repository_path`.
    ///
    /// One folder with a configuration file stands for that file. Without a port or a Unix socket, both ports are the usual ones.
    /// Unless other addresses are given, the server listens on 127.0.0.1 alone, except for a repository whose
    /// flags have a port.
    ///
    /// # Errors
    ///
    /// Fails with the first flag that is not accepted.
    pub fn from_paths(
        flags: Flags,
        paths: Vec<PathBuf>,
        environment: &FlagEnvironment,
    ) -> Result<Self, FlagError> {
        Self::from_paths_without(flags, paths, ClosedPorts::default(), environment)
    }

    /// Reads flags where some ports are given as 0, which the usual ones do not take the place of.
    ///
    /// # Errors
    ///
    /// Fails with the first flag that is not accepted, or without any port.
    pub fn from_paths_without(
        mut flags: Flags,
        paths: Vec<PathBuf>,
        closed: ClosedPorts,
        environment: &FlagEnvironment,
    ) -> Result<Self, FlagError> {
        let has_socket = flags.grpc_unix_socket.is_some() || flags.rest_unix_socket.is_some();
        let has_port = flags.port != 0 || flags.rest_port != 0 || has_socket;
        if !has_port {
            (flags.port, flags.rest_port) = closed.of(USUAL_PORTS);
        }
        let is_local = !paths.is_empty() || !has_port;
        Self::of(flags, Some(PathArguments { paths, is_local }), environment)
    }

    fn of(
        mut flags: Flags,
        paths: Option<PathArguments>,
        environment: &FlagEnvironment,
    ) -> Result<Self, FlagError> {
        let folder_file = match &paths {
            Some(paths) => paths.config(&flags)?,
            None => None,
        };
        let preprocessing = preprocessing(&flags)?;
        let usual = Some(PathBuf::from(CACHE_DIR));
        flags.cache_dir = flags.cache_dir.or(usual.filter(|dir| dir.is_dir()));
        let settings = check(&flags, paths.as_ref(), environment)?;
        let defaults = Defaults {
            flags: Arc::clone(&settings.flags),
            budget: settings.budget.clone(),
            batch_budget: batch_budget(&settings.budget),
            placement: Placement::Measured,
        };
        let mut warnings = channel_arguments::warnings(&settings);
        if paths.is_none() && flags.model_repository_path.is_some() {
            warnings.push(
                "model_repository_path is ignored: config_path or model_path names what is served"
                    .to_owned(),
            );
        }
        let file = folder_file.as_ref().or(flags.config_path.as_ref());
        let source = match (paths.filter(|_| folder_file.is_none()), file) {
            (Some(PathArguments { paths, .. }), _) => {
                let nameless = (String::new(), String::new());
                let mut model = model(&flags, nameless, &defaults, &mut warnings)?;
                model.load.preprocessing = preprocessing;
                ConfigSource::Paths(Box::new(PathSource {
                    paths,
                    repository: flags.model_repository_path.clone(),
                    name: flags.model_name.clone(),
                    model,
                    unfit: unfit_for_graphs(&flags),
                    of_tensors: given(&flags, |flag| OF_TENSORS.contains(&flag.name)),
                    defaults,
                }))
            }
            (None, Some(path)) => {
                let ignored = given(&flags, |flag| flag.scope == ModelIgnored);
                warnings.extend(ignored.into_iter().map(|name| {
                    format!("{name} is ignored: with config_path, models are described in the file")
                }));
                ConfigSource::File {
                    path: path.clone(),
                    defaults,
                }
            }
            (None, None) => match graph(&flags)? {
                Some(graph) => ConfigSource::Graph {
                    graph: Box::new(graph),
                    defaults,
                },
                None => {
                    let named = named(&flags)?;
                    let mut model = model(&flags, named, &defaults, &mut warnings)?;
                    model.load.preprocessing = preprocessing;
                    ConfigSource::Model {
                        model: Box::new(model),
                        defaults,
                        unfit: unfit_for_graphs(&flags),
                    }
                }
            },
        };
        Ok(Self {
            settings,
            source,
            warnings,
        })
    }

    /// Adds the file's settings of the server itself, which are applied only at startup.
    ///
    /// # Errors
    ///
    /// Fails if that contradicts the flags.
    pub fn add_monitoring(&mut self, file: &FileConfig) -> Result<(), FlagError> {
        let Some(monitoring) = &file.monitoring else {
            return Ok(());
        };
        if self.settings.metrics.enable {
            return Err(FlagError::MetricsTwice);
        }
        if monitoring.enable && !self.settings.has_http() {
            return Err(FlagError::FileMetricsWithoutPort);
        }
        self.settings.metrics = monitoring.clone();
        Ok(())
    }
}

/// Reads what is done to the elements of the input. The reference looks at it before everything else.
fn preprocessing(flags: &Flags) -> Result<Preprocessing, FlagError> {
    let mut read = Preprocessing::default();
    for (flag, value) in flags.given() {
        let (Some(text), true) = (value.as_str(), preprocessing::KEYS.contains(&flag.name)) else {
            continue;
        };
        if flags.layout.is_none() {
            return Err(FlagError::LayoutMissing(flag.name));
        }
        preprocessing::read(&mut read, flag.name, text)?;
    }
    Ok(read)
}

/// Checks what concerns the server, in the known order.
fn check(
    flags: &Flags,
    paths: Option<&PathArguments>,
    environment: &FlagEnvironment,
) -> Result<ServerSettings, FlagError> {
    let name = flags.model_name.as_ref().filter(|name| !name.is_empty());
    let single = (name, flags.model_path.as_ref());
    match (&flags.config_path, single) {
        (None, (_, None)) if paths.is_some() => {}
        (Some(_), (None, None)) | (None, (Some(_), Some(_))) if paths.is_none() => {}
        (Some(_), _) => return Err(FlagError::FileAndModel),
        (None, _) if paths.is_some() => return Err(FlagError::FileAndModel),
        (None, _) => return Err(FlagError::ModelMissing),
    }
    if flags.config_path.is_some() && !given(flags, |flag| flag.scope == Model).is_empty() {
        return Err(FlagError::FileAndParameters);
    }
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let from_environment = (environment.grpc_servers.as_deref())
        .and_then(|text| text.trim().parse().ok())
        .filter(|&number: &u32| number > 0);
    let grpc_workers = from_environment.unwrap_or(flags.grpc_workers);
    if !(1..=cores).contains(&(grpc_workers as usize)) {
        return Err(FlagError::GrpcWorkers {
            cores,
            variable: from_environment,
        });
    }
    let metrics_list = flags.metrics_list.as_deref();
    let metrics_list = metrics_list.filter(|list| !list.is_empty());
    let (no_grpc, no_rest) = (
        flags.port == 0 && flags.grpc_unix_socket.is_none(),
        flags.rest_port == 0 && flags.rest_unix_socket.is_none(),
    );
    // Without any port there is nothing to check of them.
    let no_ports = no_grpc && no_rest;
    let serving = !(flags.check != CheckDepth::Off && no_ports);
    let no_http = no_rest && flags.management_port == 0;
    if serving && flags.metrics_enable && no_http {
        return Err(FlagError::MetricsWithoutPort);
    }
    if metrics_list.is_some() && !flags.metrics_enable {
        return Err(FlagError::MetricsNotEnabled);
    }
    if serving && no_ports {
        return Err(FlagError::PortsUnset);
    }
    if let Some(workers) = flags.rest_workers {
        if !(2..=10_000).contains(&workers) {
            return Err(FlagError::RestWorkers);
        }
        if serving && no_rest {
            return Err(FlagError::RestWorkersWithoutPort);
        }
    }
    let port = port_of("port", flags.port)?;
    let rest_port = port_of("rest_port", flags.rest_port)?;
    // The example, and what is named in a word, is for whoever tries it on this machine.
    let is_local = flags.demo || paths.is_some_and(|paths| paths.is_local);
    let usual = if is_local { "127.0.0.1" } else { "0.0.0.0" };
    let rest = flags.rest_bind_address.as_deref().unwrap_or(usual);
    let rest_bind_addresses = addresses("rest_bind_address", rest)?;
    let grpc = flags.grpc_bind_address.as_deref().unwrap_or(usual);
    let grpc_bind_addresses = addresses("grpc_bind_address", grpc)?;
    if serving && port == rest_port && port != 0 {
        return Err(FlagError::SamePorts);
    }
    let (management_port, management_bind_addresses) = management(flags, &rest_bind_addresses)?;
    let unix_socket_mode = unix_sockets(flags)?;
    let tls = tls(flags, serving)?;
    let allowed_hosts = allowed_hosts(flags.allowed_hosts.as_deref())?;
    if let Some(path) = flags.cpu_extension.as_ref().filter(|path| !path.exists()) {
        return Err(FlagError::CpuExtension(path.display().to_string()));
    }
    // Of a file, the interpreter is looked for, and not found with a reason.
    if let Some(path) = flags
        .python_environment
        .as_ref()
        .filter(|path| !path.exists())
    {
        return Err(FlagError::PythonEnvironment(path.display().to_string()));
    }
    if !LOG_LEVELS.contains(&flags.log_level.as_str()) {
        return Err(FlagError::LogLevel);
    }
    if (flags.log_path.as_ref()).is_some_and(|path| path.as_os_str() == "-") {
        return Err(FlagError::LogPath);
    }
    let needs_state = flags.idle_sequence_cleanup.is_some()
        || flags.low_latency_transformation.is_some()
        || flags.max_sequence_number.is_some();
    if needs_state && !flags.stateful {
        return Err(FlagError::NotStateful);
    }
    for (name, is_set) in [
        (
            "drain_sequences_seconds",
            flags.drain_sequences_seconds.is_some(),
        ),
        ("state_mode", flags.state_mode.is_some()),
        ("sequence_batch", flags.sequence_batch.is_some()),
    ] {
        if is_set && !flags.stateful {
            return Err(FlagError::NeedsStateful(name));
        }
    }
    for (name, text) in [
        ("allowed_origins", &flags.allowed_origins),
        ("allowed_methods", &flags.allowed_methods),
        ("allowed_headers", &flags.allowed_headers),
    ] {
        if axum::http::HeaderValue::from_str(text).is_err() {
            return Err(FlagError::HeaderText(name));
        }
    }
    if let Some(endpoint) = &flags.otlp_endpoint
        && trace::collector_url(endpoint).is_none()
    {
        return Err(FlagError::OtlpEndpoint(endpoint.clone()));
    }
    let client_limits = flags.client_limits.as_deref().map(str::parse).transpose()?;
    let api_key = api_key(flags, environment)?;
    let sequence_store = flags.sequence_store.as_deref().map(str::parse).transpose();
    let sequence_store = sequence_store.map_err(FlagError::SequenceStore)?;
    if flags.sequence_durability.is_some() && sequence_store.is_none() {
        return Err(FlagError::DurabilityWithoutStore);
    }
    let shared_memory = flags.shared_memory.as_deref();
    let shared_memory = shared_memory.map(str::parse::<KeyPrefix>).transpose()?;
    let grpc_channel_arguments =
        channel_arguments::read(flags.grpc_channel_arguments.as_deref().unwrap_or_default())?;
    Ok(ServerSettings {
        flags: Arc::new(flags.only(|flag| matches!(flag.scope, Server | AllModels))),
        port: (port != 0).then_some(port),
        rest_port: (rest_port != 0).then_some(rest_port),
        management_port,
        grpc_bind_addresses,
        rest_bind_addresses,
        management_bind_addresses,
        unix_socket_mode,
        tls,
        budget: Budget::new((flags.max_bytes_in_flight).map_or_else(budget::usual, ByteSize::get)),
        allowed_hosts,
        metrics: MetricsSettings {
            enable: flags.metrics_enable,
            families: metrics_list
                .map(|list| list.split(',').map(|name| name.trim().to_owned()).collect()),
        },
        grpc_channel_arguments,
        sequence_store,
        shared_memory,
        client_limits: client_limits.map(Arc::new),
        api_key,
    })
}

/// Reads the port of a flag.
fn port_of(flag: &'static str, number: u32) -> Result<u16, FlagError> {
    u16::try_from(number).map_err(|_| FlagError::PortRange(flag))
}

/// Reads the addresses of a flag.
fn addresses(flag: &'static str, list: &str) -> Result<Vec<String>, FlagError> {
    parse_list(list).ok_or(FlagError::BindAddress(flag))
}

/// Reads where management is served: on the addresses of REST unless others are given.
fn management(flags: &Flags, rest: &[String]) -> Result<(Option<u16>, Vec<String>), FlagError> {
    let port = port_of("management_port", flags.management_port)?;
    if port == 0 && flags.management_bind_address.is_some() {
        return Err(FlagError::ManagementAddressWithoutPort);
    }
    if port != 0 && [flags.port, flags.rest_port].contains(&u32::from(port)) {
        return Err(FlagError::ManagementPortTaken(port));
    }
    let addresses = match &flags.management_bind_address {
        Some(list) => addresses("management_bind_address", list)?,
        None => rest.to_vec(),
    };
    Ok(((port != 0).then_some(port), addresses))
}

/// Mode of Unix sockets unless another one is given: only the user of the server may use them.
const SOCKET_MODE: u32 = 0o600;

/// Checks the Unix sockets, and returns their mode.
fn unix_sockets(flags: &Flags) -> Result<u32, FlagError> {
    let (grpc, rest) = (&flags.grpc_unix_socket, &flags.rest_unix_socket);
    if let (Some(grpc), Some(rest)) = (grpc, rest)
        && grpc == rest
    {
        return Err(FlagError::SameUnixSockets(grpc.display().to_string()));
    }
    let Some(text) = &flags.unix_socket_mode else {
        return Ok(SOCKET_MODE);
    };
    if grpc.is_none() && rest.is_none() {
        return Err(FlagError::ModeWithoutUnixSocket);
    }
    let is_octal =
        (3..=4).contains(&text.len()) && text.bytes().all(|it| (b'0'..=b'7').contains(&it));
    let mode = u32::from_str_radix(text, 8)
        .ok()
        .filter(|mode| is_octal && *mode <= 0o777);
    mode.ok_or_else(|| FlagError::UnixSocketMode(text.clone()))
}

/// Reads the TLS of the ports; nothing is opened.
fn tls(flags: &Flags, serving: bool) -> Result<Option<TlsSettings>, FlagError> {
    let (cert, key) = match (&flags.tls_cert, &flags.tls_key) {
        (Some(cert), Some(key)) => (cert.clone(), key.clone()),
        (Some(_), None) => return Err(FlagError::TlsPair("tls_cert", "tls_key")),
        (None, Some(_)) => return Err(FlagError::TlsPair("tls_key", "tls_cert")),
        (None, None) => {
            let without = [
                ("grpc_tls", flags.grpc_tls == Some(true)),
                ("rest_tls", flags.rest_tls == Some(true)),
                ("management_tls", flags.management_tls),
                ("tls_client_ca", flags.tls_client_ca.is_some()),
                ("tls_min_version", flags.tls_min_version != TlsVersion::V12),
                (
                    "tls_client_auth",
                    flags
                        .tls_client_auth
                        .is_some_and(|it| it != ClientAuth::Off),
                ),
            ];
            let without = without.into_iter().find(|(_, is_given)| *is_given);
            let without = without.map(|(name, _)| name);
            let of_tls = || given(flags, |flag| OF_TLS.contains(&flag.name)).into_iter();
            let without = without.or_else(|| of_tls().next());
            return without.map_or(Ok(None), |name| Err(FlagError::TlsPair(name, "tls_cert")));
        }
    };
    let has_ca = flags.tls_client_ca.is_some();
    let client_auth = match flags.tls_client_auth {
        Some(ClientAuth::Optional | ClientAuth::Required) if !has_ca => {
            return Err(FlagError::ClientAuthWithoutCa);
        }
        Some(given) => given,
        None if has_ca => ClientAuth::Required,
        None => ClientAuth::Off,
    };
    let ports = [
        ("grpc_tls", flags.grpc_tls, "port", flags.port),
        ("rest_tls", flags.rest_tls, "rest_port", flags.rest_port),
        (
            "management_tls",
            Some(flags.management_tls),
            "management_port",
            flags.management_port,
        ),
    ];
    for (name, given, port, number) in ports {
        if serving && given == Some(true) && number == 0 {
            return Err(FlagError::TlsPair(name, port));
        }
    }
    // One of the two that is given as true stands alone.
    let usual = |other: Option<bool>| other != Some(true);
    let grpc = flags.grpc_tls.unwrap_or(usual(flags.rest_tls));
    let rest = flags.rest_tls.unwrap_or(usual(flags.grpc_tls));
    let settings = TlsSettings {
        cert,
        key,
        client_ca: flags.tls_client_ca.clone(),
        client_auth,
        min_version: flags.tls_min_version,
        grpc: grpc && flags.port != 0,
        rest: rest && flags.rest_port != 0,
        management: flags.management_tls,
    };
    if serving && !settings.grpc && !settings.rest && !settings.management {
        return Err(FlagError::TlsNowhere);
    }
    Ok(Some(settings))
}

/// Reads the names under which browsers may manage the server.
fn allowed_hosts(list: Option<&str>) -> Result<Option<Vec<String>>, FlagError> {
    let Some(list) = list.filter(|list| !list.is_empty()) else {
        return Ok(None);
    };
    if list.trim() == "*" {
        return Ok(Some(vec!["*".to_owned()]));
    }
    let hosts = parse_list(list).ok_or_else(|| FlagError::AllowedHosts(list.to_owned()));
    hosts.map(Some)
}

/// Reads the key of `/v3`: the first line of the file, or the environment's.
fn api_key(flags: &Flags, environment: &FlagEnvironment) -> Result<Option<String>, FlagError> {
    let key = match &flags.api_key_file {
        Some(path) => std::fs::read_to_string(path)
            .map_err(|error| FlagError::ApiKeyFile {
                path: path.display().to_string(),
                reason: error.to_string(),
            })?
            .lines()
            .next()
            .map(|line| line.trim_end().to_owned()),
        None => environment.api_key.clone(),
    };
    Ok(key.filter(|key| !key.is_empty()))
}

/// Makes the model of flags.
fn model(
    flags: &Flags,
    (name, base_path): (String, String),
    defaults: &Defaults,
    warnings: &mut Vec<String>,
) -> Result<ModelConfig, FlagError> {
    let mut model = ModelConfig::new(name, base_path, flags, defaults);
    let load = &mut model.load;
    load.properties = plugin::properties(&load.device, flags.plugin_config.as_deref())
        .map_err(FlagError::PluginConfig)?;
    if let Some(text) = &flags.dynamic_batching {
        let setting = batching::parse(text)?;
        if setting.mode != Batching::Off && flags.stateful {
            return Err(FlagError::BatchingStateful);
        }
        if !flags.stateful {
            load.batching = setting.mode;
            load.batch_bytes = setting.max_bytes;
        }
    }
    load.shapes = shape::parse(flags.shape.as_deref().unwrap_or_default())?;
    load.layouts = shape::parse_layouts(flags.layout.as_deref().unwrap_or_default())?;
    if let Some(text) = &flags.model_version_policy {
        model.policy = version_policy::parse(text)?;
    }
    if let Some(text) = &flags.batch_size {
        match shape::parse_batch(text) {
            Ok(_) if load.shapes != PerTensor::Unset => {
                warnings.push("batch_size is ignored because shape is set".to_owned());
            }
            Ok(option) => load.batch = option,
            Err(()) => warnings.push(shape::bad_batch(text)),
        }
    }
    if model.stateful.is_some() && model.load.is_auto() {
        return Err(FlagError::StatefulAuto);
    }
    Ok(model.with_cache_rule())
}

/// Makes the one graph of flags, if it is one.
fn graph(flags: &Flags) -> Result<Option<GraphConfig>, FlagError> {
    let (Some(name), Some(base_path)) = (&flags.model_name, &flags.model_path) else {
        return Err(FlagError::ModelMissing);
    };
    // Its handlers are given their path.
    let base_path = std::path::absolute(base_path).unwrap_or_else(|_| base_path.clone());
    let Some(graph) = GraphConfig::find(name, &base_path, None, None) else {
        return Ok(None);
    };
    let others = unfit_for_graphs(flags);
    if !others.is_empty() {
        let graph = graph.graph_path.display().to_string();
        return Err(FlagError::GraphParameters(graph, others.join(", ")));
    }
    plugin::properties("CPU", flags.plugin_config.as_deref()).map_err(FlagError::PluginConfig)?;
    Ok(Some(graph))
}

/// Returns the flags of models that are given and that no graph has.
fn unfit_for_graphs(flags: &Flags) -> Vec<&'static str> {
    let fits = ["plugin_config", "drain_sequences_seconds"];
    given(flags, |flag| {
        matches!(flag.scope, Model | ModelIgnored) && !fits.contains(&flag.name)
    })
}

/// Reads a comma-separated list; `None` if one of them is no address and no host name.
pub(super) fn parse_list(text: &str) -> Option<Vec<String>> {
    let mut addresses: Vec<String> = text
        .split(',')
        .map(|part| {
            let part = part.trim();
            let bare = part.strip_prefix('[').and_then(|p| p.strip_suffix(']'));
            let valid = match bare {
                Some(address) => address.parse::<Ipv6Addr>().is_ok(),
                None => part.parse::<Ipv6Addr>().is_ok() || is_host(part),
            };
            valid.then(|| bare.unwrap_or(part).to_owned())
        })
        .collect::<Option<_>>()?;
    // One that is given twice could not be opened twice.
    let mut seen = std::collections::HashSet::new();
    addresses.retain(|address| seen.insert(address.clone()));
    Some(addresses)
}

/// An IPv4 address, or a name of letters, digits and hyphens between dots (RFC 1123).
fn is_host(text: &str) -> bool {
    if text.chars().all(|c| c.is_ascii_digit() || c == '.') {
        return text.parse::<Ipv4Addr>().is_ok();
    }
    text.len() <= 253
        && text.split('.').all(|label| {
            !label.is_empty()
                && label.len() <= 63
                && !label.starts_with('-')
                && !label.ends_with('-')
                && label.chars().all(|c| c.is_ascii_alphanumeric() || c == '-')
        })
}

#[cfg(test)]
mod tests {
    use super::parse_list;

    #[test]
    fn addresses_and_names_are_reported_from_nonsense() {
        assert_eq!(
            parse_list("127.0.0.1, ::1,[::],my-host.local").unwrap(),
            ["127.0.0.1", "::1", "::", "my-host.local"]
        );
        assert_eq!(parse_list("::1,[::1],::1").unwrap(), ["::1"]);
        for wrong in [
            "",
            "1.2.3",
            "256.1.1.1",
            "a,,b",
            "-a",
            "a_b",
            "::1::",
            "[a]",
        ] {
            assert_eq!(parse_list(wrong), None, "{wrong}");
        }
    }
}
