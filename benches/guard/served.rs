//! Internals of the server, in this process and on one thread.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use ovms::{
    config::{Config, ConfigSource, FlagEnvironment, Flags, ServerSettings},
    engine::{Engine, reload::Reloader},
    frontends::{
        access::AccessLog, body::BodyLimits, grpc, guard::Gate, rest::Rest, routes::HttpPort,
    },
    metrics::Metrics,
    openvino::{
        Placement,
        runtime::{self, RuntimeSearchPath},
    },
    server::{self, Service},
    task::Task,
    trace::{TraceSettings, Tracer},
};
use serde_json::Value;
use tempfile::TempDir;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    runtime::{Builder, Runtime},
};

/// Side of the server that a connection is to.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Side {
    Grpc,
    Rest,
}

/// Servables of a configuration file.
pub(crate) struct Served {
    pub(crate) runtime: Runtime,
    engine: Arc<Engine>,
    settings: ServerSettings,
    metrics: Arc<Metrics>,
    tracer: Option<Arc<Tracer>>,
    /// Keeps the servables alive.
    _reloader: Reloader,
    _folder: TempDir,
}

impl Served {
    /// Loads everything; with traces, of which no request is sampled, or without.
    pub(crate) fn new(config: &Value, is_traced: bool) -> Self {
        let places = RuntimeSearchPath {
            install_dir: std::env::var_os("OPENVINO_INSTALL_DIR").map(PathBuf::from),
            system: true,
            ..RuntimeSearchPath::default()
        };
        runtime::open(&places).expect("the runtime opens");
        let folder = tempfile::tempdir().expect("a folder for the file");
        let path = folder.path().join("config.json");
        std::fs::write(&path, config.to_string()).expect("the folder is ours");
        let flags = Flags {
            config_path: Some(path),
            port: 9000,
            rest_port: 8000,
            ..Flags::default()
        };
        let environment = FlagEnvironment::default();
        let mut config = Config::from_flags(flags, &environment).expect("the flags are right");
        if let ConfigSource::File { defaults, .. } = &mut config.source {
            // Under valgrind every run takes long.
            defaults.placement = Placement::InPlace;
            Arc::make_mut(&mut defaults.flags).cache_dir = None;
        }
        let runtime = Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime");
        let metrics = Metrics::off();
        let engine = Engine::new(Duration::ZERO, 16);
        let reloader = runtime.block_on(async {
            let mut reloader =
                Reloader::new(Arc::clone(&engine), config.source, Arc::clone(&metrics));
            reloader.read().await.expect("the file is right");
            let errors = reloader.start().await.expect("the models load");
            assert!(errors.is_empty(), "{errors:?}");
            reloader
        });
        engine.set_ready();
        let tracer = is_traced.then(|| {
            let _within = runtime.enter();
            let variable = |name: &str| {
                let value = match name {
                    "OTEL_TRACES_SAMPLER" => "parentbased_traceidratio",
                    "OTEL_TRACES_SAMPLER_ARG" => "0",
                    _ => return None,
                };
                Some(value.to_owned())
            };
            let settings =
                TraceSettings::of(Some("http://127.0.0.1:4317"), variable, &mut Vec::new());
            let settings = settings.expect("the endpoint is right");
            let settings = settings.expect("an endpoint is given");
            Tracer::start(settings, "0").expect("the endpoint is right")
        });
        Self {
            runtime,
            engine,
            settings: config.settings,
            metrics,
            tracer,
            _reloader: reloader,
            _folder: folder,
        }
    }

    /// Serves a connection; must be called within the runtime.
    pub(crate) fn connect(
        &self,
        stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
        side: Side,
    ) -> Task<()> {
        let gate = Gate::open(Arc::clone(&self.engine));
        let limits = BodyLimits::of(&self.settings);
        let service = match side {
            Side::Grpc => Service::Grpc(grpc::service(gate, limits).0),
            Side::Rest => {
                let metrics = Arc::clone(&self.metrics);
                Service::Rest(Rest::new(
                    HttpPort::Rest,
                    gate,
                    limits,
                    &self.settings,
                    metrics,
                    Some(Arc::default()),
                ))
            }
        };
        let settings = self.settings.clone();
        let access = AccessLog::default().with_tracer(self.tracer.clone());
        Task::spawn(async move {
            server::serve_stream(stream, service, access, &settings).await;
        })
    }
}

/// Returns the path of a model of the tests.
pub(crate) fn fixture(name: &str) -> String {
    let folder = Path::new(env!("WORKSPACE_ROOT")).join("fixtures/models");
    folder.join(name).display().to_string()
}
