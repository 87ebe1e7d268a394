//! The checks of the flags: the first that fails is the answer.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use super::{FlagError, Flags};
use crate::{
    budget::{self, Budget},
    config::{
        Config, ConfigSource, address,
        file::{Defaults, FileConfig, GraphConfig},
        layout_option,
        model::{ModelConfig, StatefulConfig, VersionPolicy},
        plugin, preprocessing,
        settings::{
            ChannelArgument, Cors, MetricsSettings, PythonSettings, ServerLimits, ServerSettings,
        },
        shape, version_policy,
    },
    openvino::{LoadOptions, PerTensor, Placement, Preprocessing},
    tensor::images::PixelLimit,
};

/// The log levels, from all to least.
const LOG_LEVELS: [&str; 5] = ["TRACE", "DEBUG", "INFO", "WARNING", "ERROR"];

/// Default cache folder of compiled models, used if it exists and no other is named.
const CACHE_DIR: &str = "/opt/cache";

impl Config {
    /// Checks flags.
    ///
    /// # Errors
    ///
    /// Fails with the first flag that is not accepted.
    pub fn from_flags(flags: Flags) -> Result<Self, FlagError> {
        let preprocessing = preprocessing(&flags)?;
        let settings = check(&flags)?;
        let cache_dir = flags.cache_dir.clone().or_else(usual_cache_dir);
        let defaults = Defaults {
            max_waiting: flags.max_queued_requests,
            max_custom_runs: flags.max_custom_node_runs,
            custom_load: Duration::from_secs(flags.custom_node_load_seconds.into()),
            max_graph_runs: flags.max_graph_runs,
            graph_load: Duration::from_secs(flags.graph_load_seconds.into()),
            hide_python_errors: flags.hide_python_errors,
            max_image_pixels: PixelLimit(flags.max_image_pixels),
            budget: settings.limits.budget.clone(),
            cache_dir,
            cpu_extension: flags.cpu_extension.clone(),
            inference_timeout: (flags.inference_timeout_ms > 0)
                .then(|| Duration::from_millis(flags.inference_timeout_ms.into())),
            recovery_interval: Duration::from_millis(flags.recovery_interval_ms.into()),
            hide_inference_errors: flags.hide_inference_errors,
            placement: Placement::Measured,
        };
        let mut warnings = Vec::new();
        let source = match &flags.config_path {
            Some(path) => {
                let ignored = [
                    ("layout", flags.layout.is_some()),
                    ("mean", flags.mean.is_some()),
                    ("scale", flags.scale.is_some()),
                    ("color_format", flags.color_format.is_some()),
                    ("precision", flags.precision.is_some()),
                    ("stateful", flags.stateful),
                    (
                        "idle_sequence_cleanup",
                        flags.idle_sequence_cleanup.is_some(),
                    ),
                    (
                        "low_latency_transformation",
                        flags.low_latency_transformation.is_some(),
                    ),
                    ("max_sequence_number", flags.max_sequence_number.is_some()),
                    (
                        "drain_sequences_seconds",
                        flags.drain_sequences_seconds.is_some(),
                    ),
                ];
                for (name, _) in ignored.iter().filter(|(_, given)| *given) {
                    warnings.push(format!(
                        "{name} is ignored: with config_path, models are described in \
                         the file"
                    ));
                }
                ConfigSource::File {
                    path: path.clone(),
                    defaults,
                }
            }
            None => match graph(&flags)? {
                Some(graph) => ConfigSource::Graph {
                    graph: Box::new(graph),
                    defaults,
                },
                None => {
                    let mut model = model(flags, defaults, &mut warnings)?;
                    model.load.preprocessing = preprocessing;
                    ConfigSource::Model(Box::new(model))
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

/// Returns the folder for compiled models that is used if no other is named.
fn usual_cache_dir() -> Option<PathBuf> {
    let usual = Path::new(CACHE_DIR);
    usual.is_dir().then(|| usual.to_owned())
}

/// Reads what is done to the elements of the input. The reference looks at it before everything else.
fn preprocessing(flags: &Flags) -> Result<Preprocessing, FlagError> {
    let given = [
        &flags.mean,
        &flags.scale,
        &flags.color_format,
        &flags.precision,
    ];
    let mut read = Preprocessing::default();
    for (key, text) in preprocessing::KEYS.into_iter().zip(given) {
        let Some(text) = text else {
            continue;
        };
        if flags.layout.is_none() {
            return Err(FlagError::LayoutMissing(key));
        }
        preprocessing::read(&mut read, key, text)?;
    }
    Ok(read)
}

/// Checks what concerns the server, in the known order.
fn check(flags: &Flags) -> Result<ServerSettings, FlagError> {
    let name = flags.model_name.as_ref().filter(|name| !name.is_empty());
    let single = (name, flags.model_path.as_ref());
    match (&flags.config_path, single) {
        (Some(_), (None, None)) | (None, (Some(_), Some(_))) => {}
        (Some(_), _) => return Err(FlagError::FileAndModel),
        (None, _) => return Err(FlagError::ModelMissing),
    }
    let parameters = [
        &flags.batch_size,
        &flags.shape,
        &flags.model_version_policy,
        &flags.target_device,
        &flags.plugin_config,
    ];
    if flags.config_path.is_some() && (flags.nireq != 0 || parameters.iter().any(|p| p.is_some())) {
        return Err(FlagError::FileAndParameters);
    }
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let from_environment = (flags.environment.grpc_servers.as_deref())
        .and_then(|text| text.trim().parse().ok())
        .filter(|&number: &u32| number > 0);
    let grpc_workers = from_environment.unwrap_or(flags.grpc_workers);
    if !(1..=cores).contains(&(grpc_workers as usize)) {
        return Err(FlagError::GrpcWorkers {
            cores,
            variable: from_environment,
        });
    }
    let metrics_list = flags
        .metrics_list
        .as_deref()
        .filter(|list| !list.is_empty());
    // Without any port there is nothing to check of them.
    let no_ports = flags.port == 0 && flags.rest_port == 0;
    let serving = !(flags.check && no_ports);
    let no_http = flags.rest_port == 0 && flags.management_port == 0;
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
        if serving && flags.rest_port == 0 {
            return Err(FlagError::RestWorkersWithoutPort);
        }
    }
    let port = u16::try_from(flags.port).map_err(|_| FlagError::Port)?;
    let rest_port = u16::try_from(flags.rest_port).map_err(|_| FlagError::RestPort)?;
    // The example is for whoever tries it on this machine.
    let usual = if flags.demo { "127.0.0.1" } else { "0.0.0.0" };
    let rest_bind_addresses =
        address::parse_list(flags.rest_bind_address.as_deref().unwrap_or(usual))
            .ok_or(FlagError::RestBindAddress)?;
    let grpc_bind_addresses =
        address::parse_list(flags.grpc_bind_address.as_deref().unwrap_or(usual))
            .ok_or(FlagError::GrpcBindAddress)?;
    if serving && port == rest_port {
        return Err(FlagError::SamePorts);
    }
    let (management_port, management_bind_addresses) = management(flags, &rest_bind_addresses)?;
    let allowed_hosts = allowed_hosts(flags.allowed_hosts.as_deref())?;
    if let Some(path) = &flags.cpu_extension
        && !path.exists()
    {
        return Err(FlagError::CpuExtension(path.display().to_string()));
    }
    if let Some(path) = &flags.python_environment
        && !path.is_dir()
    {
        return Err(FlagError::PythonEnvironment(path.display().to_string()));
    }
    if !LOG_LEVELS.contains(&flags.log_level.as_str()) {
        return Err(FlagError::LogLevel);
    }
    let needs_state = flags.idle_sequence_cleanup.is_some()
        || flags.low_latency_transformation.is_some()
        || flags.max_sequence_number.is_some();
    if needs_state && !flags.stateful {
        return Err(FlagError::NotStateful);
    }
    if flags.drain_sequences_seconds.is_some() && !flags.stateful {
        return Err(FlagError::DrainNotStateful);
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
    let api_key = api_key(flags)?;
    let grpc_channel_arguments =
        channel_arguments(flags.grpc_channel_arguments.as_deref().unwrap_or_default())?;
    let cores = u32::try_from(cores).unwrap_or(u32::MAX);
    let seconds = |seconds: u32| (seconds > 0).then(|| Duration::from_secs(seconds.into()));
    Ok(ServerSettings {
        port: (port != 0).then_some(port),
        rest_port: (rest_port != 0).then_some(rest_port),
        management_port,
        grpc_bind_addresses,
        rest_bind_addresses,
        management_bind_addresses,
        limits: ServerLimits {
            message_size: flags.max_message_size,
            connections: flags.max_connections,
            budget: Budget::new(flags.max_bytes_in_flight.unwrap_or_else(budget::usual)),
            connections_per_address: (flags.max_connections_per_address > 0)
                .then_some(flags.max_connections_per_address),
            connection_streams: flags.grpc_max_concurrent_streams,
            receive_rate: flags.min_receive_rate,
            read: Duration::from_secs(flags.read_timeout_seconds),
            write: Duration::from_secs(flags.write_timeout_seconds.into()),
            idle: Duration::from_secs(flags.idle_timeout_seconds.into()),
            loading: Duration::from_secs(flags.loading_wait_seconds),
            reload: Duration::from_secs(flags.reload_wait_seconds.into()),
            shutdown: Duration::from_secs(flags.shutdown_timeout_seconds),
            waiting: flags.max_queued_requests,
            image_pixels: flags.max_image_pixels,
            string_elements: flags.max_string_elements,
            streams: flags.max_streams,
        },
        python: PythonSettings {
            environment: flags.python_environment.clone(),
            runs: flags.max_python_runs,
        },
        cors: Cors {
            allow_credentials: flags.allow_credentials,
            allowed_origins: flags.allowed_origins.clone(),
            allowed_methods: flags.allowed_methods.clone(),
            allowed_headers: flags.allowed_headers.clone(),
        },
        allowed_hosts,
        metrics: MetricsSettings {
            enable: flags.metrics_enable,
            families: metrics_list
                .map(|list| list.split(',').map(|name| name.trim().to_owned()).collect()),
        },
        dashboard: !flags.no_dashboard,
        poll: seconds(flags.file_system_poll_wait_seconds),
        sequence_cleaner_poll: seconds(flags.sequence_cleaner_poll_wait_minutes)
            .map(|minutes| minutes * 60),
        custom_node_resources_cleaner_interval: seconds(
            flags.custom_node_resources_cleaner_interval_seconds,
        ),
        grpc_workers,
        grpc_max_threads: flags.grpc_max_threads.unwrap_or(cores.saturating_mul(8)),
        grpc_memory_quota: flags.grpc_memory_quota,
        grpc_channel_arguments,
        rest_workers: flags.rest_workers.unwrap_or(cores),
        allowed_local_media_path: flags.allowed_local_media_path.clone(),
        api_key,
        log_format: flags.log_format,
        access_log: flags.access_log.clone(),
    })
}

/// Reads where management is served: on the addresses of REST unless others are given.
fn management(flags: &Flags, rest: &[String]) -> Result<(Option<u16>, Vec<String>), FlagError> {
    let port = u16::try_from(flags.management_port).map_err(|_| FlagError::ManagementPort)?;
    if port == 0 && flags.management_bind_address.is_some() {
        return Err(FlagError::ManagementAddressWithoutPort);
    }
    if port != 0 && [flags.port, flags.rest_port].contains(&u32::from(port)) {
        return Err(FlagError::ManagementPortTaken(port));
    }
    let addresses = match &flags.management_bind_address {
        Some(list) => address::parse_list(list).ok_or(FlagError::ManagementBindAddress)?,
        None => rest.to_vec(),
    };
    Ok(((port != 0).then_some(port), addresses))
}

/// Reads the names under which browsers may manage the server.
fn allowed_hosts(list: Option<&str>) -> Result<Option<Vec<String>>, FlagError> {
    let Some(list) = list.filter(|list| !list.is_empty()) else {
        return Ok(None);
    };
    if list.trim() == "*" {
        return Ok(Some(vec!["*".to_owned()]));
    }
    let hosts = address::parse_list(list);
    hosts
        .map(Some)
        .ok_or_else(|| FlagError::AllowedHosts(list.to_owned()))
}

/// Reads the key of `/v3`: the first line of the file, or the environment's.
fn api_key(flags: &Flags) -> Result<Option<String>, FlagError> {
    let key = match &flags.api_key_file {
        Some(path) => std::fs::read_to_string(path)
            .map_err(|error| FlagError::ApiKeyFile {
                path: path.display().to_string(),
                reason: error.to_string(),
            })?
            .lines()
            .next()
            .map(|line| line.trim_end().to_owned()),
        None => flags.environment.api_key.clone(),
    };
    Ok(key.filter(|key| !key.is_empty()))
}

/// Reads `k=v,k=v`.
fn channel_arguments(text: &str) -> Result<Vec<(String, ChannelArgument)>, FlagError> {
    if text.is_empty() {
        return Ok(Vec::new());
    }
    text.split(',')
        .map(|item| {
            let (key, value) = item
                .split_once('=')
                .filter(|(_, value)| !value.contains('='))
                .ok_or_else(|| FlagError::ChannelArguments(text.to_owned()))?;
            let value = value.trim();
            let value = value.parse().map_or_else(
                |_| ChannelArgument::Text(value.to_owned()),
                ChannelArgument::Int,
            );
            Ok((key.trim().to_owned(), value))
        })
        .collect()
}

/// Makes the one model of flags.
fn model(
    flags: Flags,
    defaults: Defaults,
    warnings: &mut Vec<String>,
) -> Result<ModelConfig, FlagError> {
    let (Some(name), Some(base_path)) = (&flags.model_name, &flags.model_path) else {
        return Err(FlagError::ModelMissing);
    };
    let device = flags.target_device.unwrap_or_else(|| "CPU".to_owned());
    let properties = plugin::properties(&device, flags.plugin_config.as_deref())
        .map_err(FlagError::PluginConfig)?;
    let shapes = shape::parse(flags.shape.as_deref().unwrap_or_default())?;
    let layouts = layout_option::parse(flags.layout.as_deref().unwrap_or_default())?;
    let policy = match &flags.model_version_policy {
        Some(text) => version_policy::parse(text)?,
        None => VersionPolicy::default(),
    };
    let mut batch = None;
    if let Some(text) = &flags.batch_size {
        match shape::parse_batch(text) {
            Ok(_) if shapes != PerTensor::Unset => {
                warnings.push("batch_size is ignored because shape is set".to_owned());
            }
            Ok(option) => batch = option,
            Err(()) => warnings.push(shape::bad_batch(text)),
        }
    }
    let usual = StatefulConfig::default();
    let stateful = flags.stateful.then(|| StatefulConfig {
        idle_sequence_cleanup: flags
            .idle_sequence_cleanup
            .unwrap_or(usual.idle_sequence_cleanup),
        low_latency_transformation: flags
            .low_latency_transformation
            .unwrap_or(usual.low_latency_transformation),
        max_sequence_number: flags
            .max_sequence_number
            .unwrap_or(usual.max_sequence_number),
        drain: flags
            .drain_sequences_seconds
            .map_or(usual.drain, |seconds| Duration::from_secs(seconds.into())),
    });
    let model = ModelConfig {
        name: name.clone(),
        base_path: base_path.to_string_lossy().into_owned(),
        policy,
        load: LoadOptions {
            device,
            properties,
            stateful: flags.stateful,
            nireq: flags.nireq,
            max_waiting: defaults.max_waiting,
            max_image_pixels: defaults.max_image_pixels,
            budget: defaults.budget,
            batch,
            shapes,
            layouts,
            preprocessing: Preprocessing::default(),
            cache_dir: defaults.cache_dir,
            cpu_extension: defaults.cpu_extension,
            low_latency: stateful
                .as_ref()
                .is_some_and(|stateful| stateful.low_latency_transformation),
            placement: defaults.placement,
            inference_timeout: defaults.inference_timeout,
            recovery_interval: defaults.recovery_interval,
            hide_errors: defaults.hide_inference_errors,
        },
        allow_cache: false,
        stateful,
        warmup: Vec::new(),
    };
    if model.stateful.is_some() && model.has_auto() {
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
    let others = [
        ("batch_size", flags.batch_size.is_some()),
        ("shape", flags.shape.is_some()),
        ("layout", flags.layout.is_some()),
        ("mean", flags.mean.is_some()),
        ("scale", flags.scale.is_some()),
        ("color_format", flags.color_format.is_some()),
        ("precision", flags.precision.is_some()),
        ("model_version_policy", flags.model_version_policy.is_some()),
        ("nireq", flags.nireq != 0),
        ("target_device", flags.target_device.is_some()),
        ("stateful", flags.stateful),
        (
            "idle_sequence_cleanup",
            flags.idle_sequence_cleanup.is_some(),
        ),
        (
            "low_latency_transformation",
            flags.low_latency_transformation.is_some(),
        ),
        ("max_sequence_number", flags.max_sequence_number.is_some()),
    ];
    let others = others.into_iter().filter(|(_, given)| *given);
    let others: Vec<&str> = others.map(|(name, _)| name).collect();
    if !others.is_empty() {
        let graph = graph.graph_path.display().to_string();
        return Err(FlagError::GraphParameters(graph, others.join(", ")));
    }
    plugin::properties("CPU", flags.plugin_config.as_deref()).map_err(FlagError::PluginConfig)?;
    Ok(Some(graph))
}
