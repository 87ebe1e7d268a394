//! The order of the checks, and what the flags become.

use std::time::Duration;

use super::{FlagEnvironment, FlagError, Flags};
use crate::{
    config::{
        Config, ConfigSource,
        file::FileConfig,
        settings::{
            AccessLogTarget, ChannelArgument, CheckDepth, ClientAuth, LogFormat, MetricsSettings,
            ModelConfig, StatefulConfig, TlsVersion, VersionPolicy,
        },
    },
    openvino::{BatchOption, PerTensor, ShapeOption, StateMode},
};

fn flags() -> Flags {
    Flags {
        model_name: Some("dummy".to_owned()),
        model_path: Some("/models/dummy".into()),
        port: 9000,
        rest_port: 8000,
        ..Flags::default()
    }
}

/// Checks flags where the environment says nothing.
fn checked(flags: Flags) -> Result<Config, FlagError> {
    Config::from_flags(flags, &FlagEnvironment::default())
}

fn accepted(change: impl FnOnce(&mut Flags)) -> Config {
    let mut flags = flags();
    change(&mut flags);
    checked(flags).unwrap()
}

fn model(change: impl FnOnce(&mut Flags)) -> ModelConfig {
    match accepted(change).source {
        ConfigSource::Model { model, .. } => *model,
        _ => panic!("no model"),
    }
}

fn error(change: impl FnOnce(&mut Flags)) -> FlagError {
    let mut flags = flags();
    change(&mut flags);
    checked(flags).unwrap_err()
}

/// A way to break one rule.
type Break = fn(&mut Flags);

#[test]
fn the_first_error_in_order_is_the_answer() {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    // From the last rule to the first: each is broken while the ones behind it are broken, too.
    let rules: [(Break, FlagError); 23] = [
        (
            |f| f.plugin_config = Some("[]".to_owned()),
            FlagError::PluginConfig(String::new()),
        ),
        (
            |f| f.grpc_channel_arguments = Some("a".to_owned()),
            FlagError::ChannelArguments("a".to_owned()),
        ),
        (
            |f| f.api_key_file = Some("/nonexistent/key".into()),
            FlagError::ApiKeyFile {
                path: "/nonexistent/key".to_owned(),
                reason: String::new(),
            },
        ),
        (
            |f| f.idle_sequence_cleanup = Some(true),
            FlagError::NotStateful,
        ),
        (|f| f.log_path = Some("-".into()), FlagError::LogPath),
        (|f| f.log_level = "info".to_owned(), FlagError::LogLevel),
        (
            |f| f.cpu_extension = Some("/nonexistent/a.so".into()),
            FlagError::CpuExtension("/nonexistent/a.so".to_owned()),
        ),
        (
            |f| f.allowed_hosts = Some("a:1".to_owned()),
            FlagError::AllowedHosts("a:1".to_owned()),
        ),
        (
            |f| f.management_bind_address = Some("0.0.0.0".to_owned()),
            FlagError::ManagementAddressWithoutPort,
        ),
        (
            |f| f.management_port = 65536,
            FlagError::PortRange("management_port"),
        ),
        (|f| f.rest_port = 9000, FlagError::SamePorts),
        (
            |f| f.grpc_bind_address = Some("?".to_owned()),
            FlagError::BindAddress("grpc_bind_address"),
        ),
        (
            |f| f.rest_bind_address = Some("?".to_owned()),
            FlagError::BindAddress("rest_bind_address"),
        ),
        (|f| f.rest_port = 65536, FlagError::PortRange("rest_port")),
        (|f| f.port = 65536, FlagError::PortRange("port")),
        (|f| f.rest_workers = Some(1), FlagError::RestWorkers),
        (|f| (f.port, f.rest_port) = (0, 0), FlagError::PortsUnset),
        (
            |f| f.metrics_list = Some("a".to_owned()),
            FlagError::MetricsNotEnabled,
        ),
        (
            |f| (f.metrics_enable, f.management_port) = (true, 0),
            FlagError::MetricsWithoutPort,
        ),
        (
            |f| f.grpc_workers = 0,
            FlagError::GrpcWorkers {
                cores,
                variable: None,
            },
        ),
        (
            |f| f.model_name = Some(String::new()),
            FlagError::ModelMissing,
        ),
        (|f| f.model_path = None, FlagError::ModelMissing),
        (
            |f| {
                f.config_path = Some("/models/config.json".into());
                f.model_name = Some("a".to_owned());
            },
            FlagError::FileAndModel,
        ),
    ];
    let mut broken = flags();
    for (change, expected) in rules {
        change(&mut broken);
        let error = checked(broken.clone()).unwrap_err();
        assert_eq!(
            std::mem::discriminant(&error),
            std::mem::discriminant(&expected),
            "{error}"
        );
        let start = !matches!(
            error,
            FlagError::PluginConfig(_) | FlagError::ChannelArguments(_)
        );
        assert_eq!(error.is_usage(), start, "{error}");
    }
}

#[test]
fn a_file_describes_its_models_alone() {
    let with_file = |change: Break| {
        error(|f| {
            (f.model_name, f.model_path) = (None, None);
            f.config_path = Some("/models/config.json".into());
            // A rule further down.
            f.grpc_workers = 0;
            change(f);
        })
    };
    let changes: [Break; 6] = [
        |f| f.batch_size = Some("1".to_owned()),
        |f| f.shape = Some("(1)".to_owned()),
        |f| f.nireq = 1,
        |f| f.model_version_policy = Some("{}".to_owned()),
        |f| f.target_device = Some("CPU".to_owned()),
        |f| f.plugin_config = Some("{}".to_owned()),
    ];
    for change in changes {
        assert_eq!(with_file(change), FlagError::FileAndParameters);
    }
    let config = accepted(|f| {
        (f.model_name, f.model_path) = (None, None);
        f.config_path = Some("/models/config.json".into());
        f.layout = Some("NCHW".to_owned());
        f.stateful = true;
        f.cache_dir = Some("/cache".into());
    });
    assert_eq!(config.warnings.len(), 2, "{:?}", config.warnings);
    let ConfigSource::File { path, defaults } = config.source else {
        panic!("a model");
    };
    assert_eq!(path, std::path::Path::new("/models/config.json"));
    assert_eq!(defaults.flags.max_queued_requests, 1024);
    assert!(!defaults.flags.stateful, "it is of a model of the flags");
    assert_eq!(
        defaults.flags.cache_dir.as_deref(),
        Some(std::path::Path::new("/cache"))
    );
}

#[test]
fn ranges_are_checked() {
    for workers in [0, 1, 10_001] {
        assert_eq!(
            error(|f| f.rest_workers = Some(workers)),
            FlagError::RestWorkers
        );
    }
    assert_eq!(
        error(|f| {
            f.rest_workers = Some(2);
            f.rest_port = 0;
        }),
        FlagError::RestWorkersWithoutPort
    );
    accepted(|f| f.rest_workers = Some(10_000));
    let too_many = error(|f| f.grpc_workers = 1_000_000);
    assert!(
        too_many
            .to_string()
            .starts_with("grpc_workers count should be from 1 to CPU core count : "),
    );
    assert_eq!(
        error(|f| f.max_sequence_number = Some(500)),
        FlagError::NotStateful
    );
    assert_eq!(
        error(|f| f.low_latency_transformation = Some(false)),
        FlagError::NotStateful
    );
    assert_eq!(
        error(|f| f.state_mode = Some(StateMode::Tensors)),
        FlagError::NeedsStateful("state_mode")
    );
}

#[test]
fn a_port_of_zero_is_no_port() {
    let config = accepted(|f| f.port = 0);
    assert_eq!(config.settings.port, None);
    assert_eq!(config.settings.rest_port, Some(8000));
}

#[test]
fn a_check_needs_no_ports() {
    let check = |change: Break| {
        let mut flags = Flags {
            check: CheckDepth::Full,
            port: 0,
            rest_port: 0,
            metrics_enable: true,
            rest_workers: Some(2),
            ..flags()
        };
        change(&mut flags);
        checked(flags).map(|_| ())
    };
    assert_eq!(check(|_| {}), Ok(()));
    assert_eq!(check(|f| f.port = 9000), Err(FlagError::MetricsWithoutPort));
}

#[test]
fn the_environment_stands_in_for_flags() {
    let workers = |servers: &str, grpc_workers| {
        let environment = FlagEnvironment {
            grpc_servers: Some(servers.to_owned()),
            ..FlagEnvironment::default()
        };
        let flags = Flags {
            grpc_workers,
            ..flags()
        };
        Config::from_flags(flags, &environment).map(|_| ())
    };
    assert_eq!(workers("1", 1_000_000), Ok(()), "it overrides the flag");
    assert!(workers("1000000", 1).is_err(), "it overrides the flag");
    assert_eq!(workers("0", 1), Ok(()));
    assert_eq!(workers("many", 1), Ok(()));

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("key");
    std::fs::write(&path, "secret \t\r\nsecond line\n").unwrap();
    let key = |file: bool, environment: Option<&str>| {
        let environment = FlagEnvironment {
            api_key: environment.map(str::to_owned),
            ..FlagEnvironment::default()
        };
        let flags = Flags {
            api_key_file: file.then(|| path.clone()),
            ..flags()
        };
        let config = Config::from_flags(flags, &environment).unwrap();
        config.settings.api_key
    };
    assert_eq!(key(true, Some("other")).as_deref(), Some("secret"));
    assert_eq!(key(false, Some("other")).as_deref(), Some("other"));
    assert_eq!(key(false, None), None);
    std::fs::write(&path, "").unwrap();
    assert_eq!(key(true, None), None);
}

#[test]
fn channel_arguments_are_numbers_or_texts() {
    let read = |text: &str| {
        let mut flags = flags();
        flags.grpc_channel_arguments = Some(text.to_owned());
        checked(flags).map(|config| config.settings.grpc_channel_arguments)
    };
    assert_eq!(
        read("grpc.max_connection_age_ms=2000,a=b").unwrap(),
        [
            (
                "grpc.max_connection_age_ms".to_owned(),
                ChannelArgument::Int(2000)
            ),
            ("a".to_owned(), ChannelArgument::Text("b".to_owned()))
        ]
    );
    assert_eq!(read("").unwrap(), []);
    for wrong in ["a", "a=b=c", "a=1,", "a=1,,b=2"] {
        let error = read(wrong).unwrap_err();
        assert_eq!(
            error.to_string(),
            format!("Grpc channel arguments passed in wrong format - {wrong}")
        );
    }
}

#[test]
fn the_model_has_what_its_flags_say() {
    let model = model(|f| {
        f.shape = Some(r#"{"b":"(1:8,10)"}"#.to_owned());
        f.layout = Some("NHWC:NCHW".to_owned());
        f.model_version_policy = Some(r#"{"all":{}}"#.to_owned());
        f.nireq = 3;
        f.stateful = true;
        f.max_sequence_number = Some(7);
        f.low_latency_transformation = Some(true);
        f.cache_dir = Some("/cache".into());
        f.plugin_config = Some(r#"{"DEVICE_PROPERTIES":{"CPU":{"NUM_STREAMS":2}}}"#.to_owned());
    });
    assert_eq!(model.policy, VersionPolicy::All);
    assert!(matches!(model.load.shapes, PerTensor::Named(_)));
    assert!(matches!(model.load.layouts, PerTensor::Anonymous(_)));
    assert_eq!((model.load.nireq, model.load.device.as_str()), (3, "CPU"));
    assert!(model.load.cache_dir.is_some());
    assert_eq!(
        model.stateful,
        Some(StatefulConfig {
            max_sequence_number: 7,
            low_latency_transformation: true,
            idle_sequence_cleanup: true,
            drain: std::time::Duration::ZERO,
        })
    );
    assert!(model.load.low_latency);
    let devices = &model.load.properties[0];
    assert_eq!(devices.0, "DEVICE_PROPERTIES");
    assert_eq!(devices.1, r#"{"CPU":{"NUM_STREAMS":2}}"#);
}

#[test]
fn texts_that_are_wrong_keep_the_server_from_starting() {
    let errors: Vec<String> = [
        error(|f| f.shape = Some("[1,2]".to_owned())),
        error(|f| f.layout = Some("NCX".to_owned())),
        error(|f| f.model_version_policy = Some(r#"{"newest":{}}"#.to_owned())),
        error(|f| f.model_version_policy = Some("all".to_owned())),
        error(|f| f.plugin_config = Some(r#"{"A":{}}"#.to_owned())),
        error(|f| {
            f.stateful = true;
            f.batch_size = Some("auto".to_owned());
        }),
    ]
    .iter()
    .map(|error| {
        assert!(!error.is_usage(), "{error}");
        format!("{error}\n")
    })
    .collect();
    insta::assert_snapshot!(errors.concat(), @"
    The provided shape is in wrong format - found `[1,2]`; expected auto, (d1,d2,…) with each d a number, -1 or a range such as 1:8, or a JSON object of those by input name
    The provided layout is in wrong format - found `NCX`; expected letters N, C, H, W, D (each once), `?`, and `...` (once)
    Model version policy contains unsupported key - found the unknown key `newest`; expected one of latest, all, specific
    Model version policy is in wrong format - found `all` (unexpected word); expected JSON
    Plugin config is in wrong format - property A is {}; expected a string, number, true or false
    Dynamic shape and dynamic batch size are not supported for stateful models
    ");
}

#[test]
fn a_batch_size_may_be_dropped_with_a_warning() {
    let batch = |text: &str, shape: Option<&str>| {
        let config = accepted(|f| {
            f.batch_size = Some(text.to_owned());
            f.shape = shape.map(str::to_owned);
            f.cache_dir = Some("/cache".into());
        });
        let ConfigSource::Model { model, .. } = config.source else {
            panic!("a file");
        };
        (
            model.load.batch,
            model.load.cache_dir,
            config.warnings.len(),
        )
    };
    assert_eq!(batch("auto", None), (Some(BatchOption::Auto), None, 0));
    assert_eq!(batch("many", None).0, None);
    assert_eq!(batch("many", None).2, 1);
    assert_eq!(batch("4", Some("(4,10)")).0, None);
    assert_eq!(batch("4", Some("(4,10)")).2, 1);
    let auto = model(|f| f.shape = Some("auto".to_owned()));
    assert_eq!(auto.load.shapes, PerTensor::Anonymous(ShapeOption::Auto));
}

#[test]
fn a_graph_is_distinguished_from_a_model() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("graph.pbtxt"), "").unwrap();
    let at = |f: &mut Flags| f.model_path = Some(folder.path().to_owned());
    let config = accepted(|f| {
        at(f);
        f.plugin_config = Some("{}".to_owned());
    });
    let ConfigSource::Graph { graph, .. } = config.source else {
        panic!("no graph");
    };
    assert_eq!(graph.name, "dummy");
    assert_eq!(graph.base_path, folder.path());
    let refused = error(|f| {
        at(f);
        f.layout = Some("NC".to_owned());
        f.nireq = 2;
    });
    assert!(refused.is_usage());
    let text = refused.to_string();
    assert!(text.starts_with("options validation error - "), "{text}");
    assert!(text.ends_with("layout, nireq"), "{text}");
}

#[test]
fn metrics_are_set_up_in_one_place() {
    let file = |enable, families: Option<Vec<String>>| FileConfig {
        monitoring: Some(MetricsSettings { enable, families }),
        ..FileConfig::default()
    };
    let mut config = accepted(|_| {});
    config.add_monitoring(&FileConfig::default()).unwrap();
    assert!(!config.settings.metrics.enable);
    config
        .add_monitoring(&file(true, Some(vec!["ovms_streams".to_owned()])))
        .unwrap();
    assert!(config.settings.metrics.enable);
    assert_eq!(config.settings.metrics.families.as_ref().unwrap().len(), 1);

    let mut without_port = accepted(|f| f.rest_port = 0);
    let error = without_port.add_monitoring(&file(true, None)).unwrap_err();
    assert_eq!(error, FlagError::FileMetricsWithoutPort);
    without_port.add_monitoring(&file(false, None)).unwrap();

    let mut twice = accepted(|f| {
        f.metrics_enable = true;
        f.metrics_list = Some("a, b".to_owned());
    });
    assert_eq!(
        twice.settings.metrics.families.as_deref(),
        Some(&["a".to_owned(), "b".to_owned()][..])
    );
    let error = twice.add_monitoring(&file(false, None)).unwrap_err();
    assert_eq!(error, FlagError::MetricsTwice);
}

#[test]
fn times_of_zero_are_never() {
    let settings = accepted(|f| {
        f.file_system_poll_wait_seconds = 0;
        f.sequence_cleaner_poll_wait_minutes = 2;
    })
    .settings;
    assert_eq!(settings.poll(), None);
    assert_eq!(
        settings.sequence_cleaner_poll(),
        Some(Duration::from_secs(120))
    );
}

#[test]
fn texts_become_the_values_of_their_flags() {
    let texts = [
        ("model_path", "/m"),
        ("stateful", "T"),
        ("idle_sequence_cleanup", "0"),
        ("max_connections", "7"),
        ("log_format", "json"),
        ("access_log", "-"),
        ("check", "Syntax"),
        // Not its form; the command line refuses it before.
        ("nireq", "many"),
    ];
    let flags = flags().with(|flag| {
        let (_, text) = texts.iter().find(|(name, _)| *name == flag.name)?;
        Some(text.into())
    });
    let expected = Flags {
        model_name: Some("dummy".to_owned()),
        model_path: Some("/m".into()),
        port: 9000,
        rest_port: 8000,
        stateful: true,
        idle_sequence_cleanup: Some(false),
        max_connections: 7,
        log_format: LogFormat::Json,
        access_log: Some(AccessLogTarget::Stdout),
        check: CheckDepth::Syntax,
        ..Flags::default()
    };
    assert_eq!(flags, expected);
    let given = flags.given().into_iter();
    let given: Vec<String> = given
        .filter(|(flag, _)| flag.is_key() || flag.name.ends_with("port"))
        .map(|(flag, value)| format!("{}: {value}", flag.name))
        .collect();
    assert_eq!(
        given,
        [
            "stateful: true",
            "idle_sequence_cleanup: false",
            "port: 9000",
            "rest_port: 8000"
        ]
    );
}

#[test]
fn unix_sockets_do_without_ports() {
    let sockets = |f: &mut Flags| {
        (f.port, f.rest_port) = (0, 0);
        f.grpc_unix_socket = Some("/run/g".into());
        f.rest_unix_socket = Some("/run/r".into());
    };
    let settings = accepted(|f| {
        sockets(f);
        f.metrics_enable = true;
        f.rest_workers = Some(4);
    })
    .settings;
    assert_eq!((settings.port, settings.rest_port), (None, None));
    assert_eq!(settings.unix_socket_mode, 0o600);
    assert!(settings.has_http());
    let alone = accepted(|f| {
        (f.port, f.rest_port) = (0, 0);
        f.grpc_unix_socket = Some("/run/g".into());
    });
    assert!(!alone.settings.has_http());
    for (text, mode) in [
        ("660", Some(0o660)),
        ("0777", Some(0o777)),
        ("000", Some(0)),
    ] {
        let changed = |f: &mut Flags| {
            sockets(f);
            f.unix_socket_mode = Some(text.to_owned());
        };
        assert_eq!(Some(accepted(changed).settings.unix_socket_mode), mode);
    }
    for text in ["", "8", "0o660", "1777", "rw-rw----", "+660"] {
        let refused = error(|f| {
            sockets(f);
            f.unix_socket_mode = Some(text.to_owned());
        });
        assert_eq!(refused, FlagError::UnixSocketMode(text.to_owned()));
        assert!(refused.is_usage());
    }
    let refused = error(|f| f.unix_socket_mode = Some("660".to_owned()));
    assert_eq!(refused, FlagError::ModeWithoutUnixSocket);
    let refused = error(|f| {
        sockets(f);
        f.rest_unix_socket = Some("/run/g".into());
    });
    assert_eq!(refused, FlagError::SameUnixSockets("/run/g".to_owned()));
}

#[test]
fn tls_is_on_both_ports_unless_one_is_named() {
    let with = |change: fn(&mut Flags)| {
        move |f: &mut Flags| {
            f.tls_cert = Some("a.pem".into());
            f.tls_key = Some("a.key".into());
            change(f);
        }
    };
    let ports = |change| {
        let tls = accepted(with(change)).settings.tls.unwrap();
        (tls.grpc, tls.rest, tls.management)
    };
    assert_eq!(ports(|_| {}), (true, true, false));
    assert_eq!(ports(|f| f.grpc_tls = Some(true)), (true, false, false));
    assert_eq!(ports(|f| f.rest_tls = Some(true)), (false, true, false));
    assert_eq!(ports(|f| f.grpc_tls = Some(false)), (false, true, false));
    assert_eq!(
        ports(|f| (f.grpc_tls, f.rest_tls) = (Some(true), Some(true))),
        (true, true, false)
    );
    assert_eq!(ports(|f| f.rest_port = 0), (true, false, false));
    let management = |f: &mut Flags| {
        (f.management_tls, f.management_port) = (true, 7000);
        (f.grpc_tls, f.rest_tls) = (Some(false), Some(false));
    };
    assert_eq!(ports(management), (false, false, true));
    assert_eq!(
        error(with(
            |f| (f.grpc_tls, f.rest_tls) = (Some(false), Some(false))
        )),
        FlagError::TlsNowhere
    );
    assert_eq!(
        error(with(|f| f.management_tls = true)),
        FlagError::TlsPair("management_tls", "management_port")
    );
    let auth = |change| accepted(with(change)).settings.tls.unwrap().client_auth;
    assert_eq!(auth(|_| {}), ClientAuth::Off);
    assert_eq!(
        auth(|f| f.tls_client_ca = Some("ca".into())),
        ClientAuth::Required
    );
    let off = |f: &mut Flags| {
        f.tls_client_ca = Some("ca".into());
        f.tls_client_auth = Some(ClientAuth::Off);
    };
    assert_eq!(auth(off), ClientAuth::Off);
    let optional: fn(&mut Flags) = |f| f.tls_client_auth = Some(ClientAuth::Optional);
    assert_eq!(error(with(optional)), FlagError::ClientAuthWithoutCa);
    let alone: [(Break, &str); 6] = [
        (|f| f.grpc_tls = Some(true), "grpc_tls"),
        (|f| f.rest_tls = Some(true), "rest_tls"),
        (|f| f.management_tls = true, "management_tls"),
        (|f| f.tls_client_ca = Some("ca".into()), "tls_client_ca"),
        (|f| f.tls_min_version = TlsVersion::V13, "tls_min_version"),
        (optional, "tls_client_auth"),
    ];
    for (change, name) in alone {
        assert_eq!(error(change), FlagError::TlsPair(name, "tls_cert"));
    }
    assert!(
        accepted(|f| f.grpc_tls = Some(false))
            .settings
            .tls
            .is_none()
    );
}

#[test]
fn what_is_named_by_its_path_is_for_this_machine() {
    let served = |flags: Flags, paths: &[&str]| {
        let paths = paths.iter().map(Into::into).collect();
        let config = Config::from_paths(flags, paths, &FlagEnvironment::default()).unwrap();
        let ConfigSource::Paths(source) = config.source else {
            panic!("no paths");
        };
        let settings = config.settings;
        let ports = (settings.port, settings.rest_port);
        (ports, settings.grpc_bind_addresses[0].clone(), source)
    };
    let usual = (Some(9000), Some(8000));
    let (ports, address, source) = served(Flags::default(), &["a.onnx", "b"]);
    assert_eq!((ports, &*address), (usual, "127.0.0.1"));
    assert_eq!(source.paths.len(), 2);
    let of_model = Flags {
        port: 1,
        target_device: Some("GPU".to_owned()),
        plugin_config: Some(r#"{"NUM_STREAMS":2}"#.to_owned()),
        ..Flags::default()
    };
    let (ports, address, source) = served(of_model, &["a.onnx"]);
    assert_eq!((ports, &*address), ((Some(1), None), "127.0.0.1"));
    assert_eq!(source.model.load.device, "GPU");
    assert_eq!(source.unfit, ["target_device"]);
    let repository = |port| Flags {
        port,
        model_repository_path: Some("all".into()),
        ..Flags::default()
    };
    let (ports, address, _) = served(repository(0), &[]);
    assert_eq!((ports, &*address), (usual, "127.0.0.1"));
    let (ports, address, _) = served(repository(1), &[]);
    assert_eq!((ports, &*address), ((Some(1), None), "0.0.0.0"));
}
