//! `ovms serve --check`: flags, configuration file, models, pipelines and graphs, without serving.
//!
//! A check opens everything that a server would load: it reads models and queries their devices for
//! the properties, opens libraries, creates custom nodes and queries their inputs and outputs, and
//! imports handlers. It compiles nothing, and creates no object of a handler. Code that takes longer
//! than a server would wait for it ends the check. `--check=syntax` opens nothing: it reads the flags,
//! the configuration file, and the graph files.

mod finding;
mod servables;

use std::{
    collections::BTreeMap,
    ffi::OsString,
    io,
    net::{Ipv4Addr, TcpListener},
    path::{Path, PathBuf},
    sync::{
        Arc,
        mpsc::{self, RecvTimeoutError},
    },
    time::{Duration, SystemTime},
};

use ovms::{
    auth::AuthFileError,
    config::{
        self, CheckDepth, ClosedPorts, ConfigSource, Defaults, EntryError, FileConfig, Flags,
        ModelEntry, RefusedEntry, ServerSettings, TlsSettings,
    },
    diagnostic::{Diagnostic, Diagnostics, FilePosition, Severity},
    engine::reload::read_paths,
    metrics::Metrics,
    python,
    server::{self, ServerTls},
    task,
    tls::CertificateFacts,
    trace::Tracer,
};
use serde::Serialize;
use tokio::runtime::{self, Runtime};

use self::finding::ServeFinding;
use super::{configured, hints, trace_settings};
use crate::{
    check::report::{CheckVerdict, CheckedKind, Counts},
    error::{Failure, unless_unread},
    graph, logging,
    pipeline::facts::{ConfigurationFacts, Reported},
    places,
    stdout_guard::StdoutGuard,
    ui::{self, Cell, Look, NOTHING, OutputFormat, Table, Tone},
};

/// Results of a check.
#[derive(Debug, Default)]
struct Report {
    /// Name, versions and state of each servable.
    rows: Vec<Row>,
    findings: Diagnostics<ServeFinding>,
    limit: Limit,
    /// Restricts the check to the files themselves, without anything that they name.
    is_syntax: bool,
    /// Indicates that there is a store of sequences.
    has_store: bool,
    /// Reasons for unread models, with their names.
    unread: BTreeMap<String, Vec<String>>,
    /// Next steps.
    hints: Vec<String>,
    /// Remark on a configuration without errors.
    note: Option<String>,
}

/// Model, pipeline or graph.
#[derive(Debug, Serialize)]
struct Row {
    name: String,
    kind: CheckedKind,
    versions: Vec<i64>,
    #[serde(serialize_with = "published")]
    state: &'static str,
}

/// State of a servable without errors in the table.
const GOOD: &str = "ok";

/// State of a servable with an error.
const ERROR: &str = "error";

/// Next step for a file without entries.
const NO_ENTRIES: &str = "`model_config_list` names models, as \
    {\"config\": {\"name\": \"m\", \"base_path\": \"/models/m\"}}";

/// Writes a state under its published name, which differs for [`ERROR`].
fn published<S: serde::Serializer>(state: &&'static str, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(if *state == ERROR { "fault" } else { state })
}

/// State of a servable that was not fully checked.
const NOT_CHECKED: &str = "not checked";

/// State of a servable with a rejected entry.
const REFUSED: &str = "refused";

/// Checks the flags and everything they refer to, and prints a table of servables and all errors.
pub(super) fn run(
    flags: Flags,
    paths: Vec<PathBuf>,
    closed: ClosedPorts,
    output: OutputFormat,
) -> Result<(), Failure> {
    let look = Look::of_stdout();
    // Libraries and handlers may print.
    let mut stdout = StdoutGuard::take()?;
    let mut report = Report {
        is_syntax: flags.check == CheckDepth::Syntax,
        ..Report::default()
    };
    let is_json = output == OutputFormat::Json;
    if is_json {
        report.limit.stdout = stdout.try_clone().ok();
    }
    if let Err(failure) = report.look(flags, paths, closed) {
        if is_json {
            report.add_failure(&failure);
            unless_unread(stdout.print(&report.json()))?;
        }
        return Err(failure);
    }
    unless_unread(stdout.print(&match is_json {
        true => report.json(),
        false => report.table(look),
    }))?;
    python::stop(graph::LIMIT);
    report.end()
}

impl Report {
    /// Checks everything that the flags name.
    fn look(
        &mut self,
        flags: Flags,
        paths: Vec<PathBuf>,
        closed: ClosedPorts,
    ) -> Result<(), Failure> {
        let mut config =
            configured(flags, paths, closed).map_err(|error| hints::of_flags(&error))?;
        places::check_python(&config.settings.flags)?;
        if !self.is_syntax {
            warn_of_taken_ports(&config.settings);
            if let Some(store) = &config.settings.sequence_store {
                // No finding: the store may be there by the time of the start.
                ui::note(&format!(
                    "note: the check does not ask the sequence store {store}; a start does, and fails without an answer"
                ));
            }
        }
        self.has_store = config.settings.sequence_store.is_some();
        for warning in std::mem::take(&mut config.warnings) {
            self.record(ServeFinding::text(Severity::Warning, warning));
        }
        let environment = config.settings.flags.python_environment.clone();
        // Those of a file have places there.
        let metrics = config.settings.metrics.clone();
        match config.source.clone() {
            ConfigSource::Model { model, .. } => {
                let mut file = FileConfig::default();
                file.models.push(ModelEntry::Model(model));
                self.servables(&file, &[], environment, "", |_| String::new());
            }
            ConfigSource::Graph { graph, defaults } => {
                let origin = graph.graph_path.display().to_string();
                let mut file = FileConfig::default();
                file.graphs.push(*graph);
                self.limit.flags = Arc::clone(&defaults.flags);
                let (file, origins) = self.subconfigs(&file, &defaults);
                self.servables(&file, &origins, environment, "", |_| origin.clone());
            }
            ConfigSource::Paths(source) => {
                let file = read_paths(&source).map_err(|error| hints::of_path(&error))?;
                for warning in &file.warnings {
                    self.record(ServeFinding::located(warning));
                }
                self.limit.flags = Arc::clone(&source.defaults.flags);
                let refused = file.refused.clone();
                let (file, origins) = self.subconfigs(&file, &source.defaults);
                self.servables(&file, &origins, environment, "", |_| String::new());
                for entry in &refused {
                    self.not_listed(entry);
                }
            }
            ConfigSource::File { path, defaults } => {
                let file = config::read(&path, &defaults).map_err(|error| {
                    self.unread(&path.display().to_string(), &error);
                    hints::explain(&error, "--config-path")
                })?;
                self.file(&path, &file, &defaults, environment);
                let settings = &config.settings;
                let ports = settings.port.is_some() || settings.has_http();
                match config.add_monitoring(&file) {
                    Err(config::FlagError::FileMetricsWithoutPort) if !ports => {}
                    Err(error) => self.record(ServeFinding::error(&error)),
                    Ok(()) => {}
                }
                self.monitoring(&path, &file);
            }
        }
        self.identities(&config.settings);
        self.traces(&config.settings.flags);
        if !self.is_syntax {
            self.tls(config.settings.tls.as_ref());
            for error in server::check_unix_sockets(&config.settings) {
                self.record(ServeFinding::error(&error));
            }
        }
        for error in logging::unwritable(&config.settings.flags) {
            self.record(ServeFinding::text(Severity::Error, error));
        }
        if let Err(error) = Metrics::new(metrics.enable, metrics.families.as_deref()) {
            let hint = hints::of_metrics(&error);
            self.record(ServeFinding::error(&error).hint(Some(hint.clone())));
            self.hints.push(hint);
        }
        Ok(())
    }

    /// Checks the names of metrics in a configuration file, whether there is a port to show them or not.
    fn monitoring(&mut self, path: &Path, file: &FileConfig) {
        let Some(metrics) = &file.monitoring else {
            return;
        };
        let names = metrics.families.as_deref().unwrap_or_default();
        let Err(error) = Metrics::new(metrics.enable, metrics.families.as_deref()) else {
            return;
        };
        let place = error.index(names).and_then(|it| file.metric_places.get(it));
        let mut found = Diagnostic::new(Severity::Error, error.to_string());
        found.place = place.cloned();
        let hint = hints::of_metrics(&error);
        found.hint = Some(hint);
        self.record(ServeFinding::in_file(&path.display().to_string(), found));
    }

    /// Reads the file of identities, and fetches the key sets of its issuers unless it is about the syntax alone.
    fn identities(&mut self, settings: &ServerSettings) {
        let auth = match server::open_auth(settings) {
            Ok(None) => return,
            Ok(Some(auth)) => auth,
            Err(error) => {
                let of_file = match &error {
                    AuthFileError::Contents { errors, .. } => {
                        errors.iter().map(ServeFinding::located).collect()
                    }
                    AuthFileError::Read { path, .. } | AuthFileError::Size(path) => {
                        let file = path.display().to_string();
                        self.hints.extend(error.hint());
                        let finding = ServeFinding::error(&error).file(&file);
                        vec![finding.hint(error.hint())]
                    }
                };
                return self.findings.errors.extend(of_file);
            }
        };
        let rules = auth.rules();
        let names: Vec<String> = self.rows.iter().map(|row| row.name.clone()).collect();
        let warnings = rules
            .warnings()
            .iter()
            .cloned()
            .chain(rules.unserved(&names));
        let warnings = warnings.map(|warning| ServeFinding::located(&warning));
        self.findings.warnings.extend(warnings);
        if self.is_syntax {
            return;
        }
        let unread = match runtime() {
            Ok(runtime) => runtime.block_on(auth.check_key_sets()),
            Err(_) => Vec::new(),
        };
        for error in unread {
            let text = ovms::error::chain(&error);
            let finding = ServeFinding::text(Severity::Warning, text);
            self.record(finding.hint(Some(error.hint())));
            if !self.hints.contains(&error.hint()) {
                self.hints.push(error.hint());
            }
        }
    }

    /// Reads the flag and the variables of traces, and the files that these name unless it is about the syntax alone.
    fn traces(&mut self, flags: &Flags) {
        let mut warnings = Vec::new();
        let settings = trace_settings(flags, &mut warnings);
        for warning in warnings {
            self.record(ServeFinding::text(Severity::Warning, warning));
        }
        let checked = match settings {
            Ok(Some(settings)) if !self.is_syntax => runtime().map_or(Ok(()), |runtime| {
                let _within = runtime.enter();
                Tracer::check(&settings)
            }),
            Ok(_) => Ok(()),
            Err(error) => Err(error),
        };
        if let Err(error) = checked {
            let hint = error.hint();
            self.record(ServeFinding::error(&error).hint(Some(hint.clone())));
            self.hints.push(hint);
        }
    }

    /// Reads the certificate of the ports, with its key and the authorities of clients.
    fn tls(&mut self, settings: Option<&TlsSettings>) {
        let Some(settings) = settings else { return };
        match ServerTls::open(settings) {
            Err(error) => {
                let finding = ServeFinding::error(&error).hint(error.hint());
                self.record(finding);
                self.hints.extend(error.hint());
            }
            Ok(tls) => {
                let facts = tls.facts();
                let (path, end) = (settings.cert.display(), facts.not_after);
                let file = path.to_string();
                if let Some(reason) = facts.unfit() {
                    let hint = CertificateFacts::UNFIT_HINT.to_owned();
                    let warning = format!("the TLS certificate {path} {reason}");
                    let finding = ServeFinding::text(Severity::Warning, warning).file(&file);
                    self.record(finding.hint(Some(hint.clone())));
                    self.hints.push(hint);
                }
                let now = SystemTime::now();
                let text = match facts.days_left(now) {
                    _ if facts.is_early(now) => format!("is not valid before {}", facts.not_before),
                    days if days < 0 => format!("has expired: it was valid until {end}"),
                    days if days < CertificateFacts::WARN_DAYS => {
                        format!("expires in {days} days, at {end}")
                    }
                    _ => return,
                };
                let warning = format!("the TLS certificate {path} {text}");
                self.record(ServeFinding::text(Severity::Warning, warning).file(&file));
            }
        }
    }

    fn file(
        &mut self,
        path: &Path,
        file: &FileConfig,
        defaults: &Defaults,
        environment: Option<PathBuf>,
    ) {
        let path = path.display().to_string();
        self.limit.flags = Arc::clone(&defaults.flags);
        let (with_more, origins) = self.subconfigs(file, defaults);
        let at = |place: &FilePosition| format!("{path}:{place}");
        self.servables(&with_more, &origins, environment, &path, at);
        for entry in &file.refused {
            let kind = match entry.reason {
                EntryError::PipelineName => CheckedKind::Pipeline,
                _ => CheckedKind::Graph,
            };
            self.row(kind, &entry.name, Vec::new(), REFUSED);
            self.refused(kind, entry, &path);
        }
        for warning in &file.warnings {
            self.record(ServeFinding::in_file(&path, warning.clone()));
        }
        if self.rows.is_empty() {
            self.note = Some(format!(
                "a server would start with nothing to serve: {path} lists no model, pipeline, or graph; {NO_ENTRIES}"
            ));
        }
        let has_errors = |kind: &CheckedKind| {
            let mut rows = self.rows.iter();
            rows.any(|row| row.kind == *kind && row.state == ERROR)
        };
        let kinds = [CheckedKind::Pipeline, CheckedKind::Graph].into_iter();
        let commands = kinds.filter(has_errors);
        let commands = commands.map(|kind| format!("`ovms {} check {path}`", kind.name()));
        let commands: Vec<String> = commands.collect();
        if !commands.is_empty() {
            let verb = if commands.len() == 1 { "shows" } else { "show" };
            let commands = commands.join(" and ");
            self.hints
                .push(format!("{commands} {verb} the lines in question"));
        }
    }

    /// Checks an entry of a list of models. Results begin with the file of the entry, if it is in one.
    fn entry(&mut self, entry: &ModelEntry, file: &str, facts: &ConfigurationFacts<'_>) {
        match entry {
            ModelEntry::Model(model) => {
                let origin = match file {
                    "" => String::new(),
                    file => format!("{file}: "),
                };
                let errors = self.findings.errors.len();
                self.model(model, (file, &origin), facts);
                if self.findings.errors.len() > errors {
                    facts.report(Reported::Model(model.name.clone()));
                }
            }
            ModelEntry::Refused(entry) => {
                self.row(CheckedKind::Model, &entry.name, Vec::new(), REFUSED);
                self.refused(CheckedKind::Model, entry, file);
                facts.report(Reported::Model(entry.name.clone()));
            }
        }
    }

    /// Adds a finding.
    fn record(&mut self, finding: ServeFinding) {
        self.findings.add(finding.severity(), finding);
    }

    /// Adds the error of an entry that is refused.
    fn refused(&mut self, kind: CheckedKind, entry: &RefusedEntry, file: &str) {
        let error = Diagnostic::new(Severity::Error, entry.reason.to_string());
        let error = error.at(entry.place.clone());
        self.record(ServeFinding::in_file(file, error).about(kind, &entry.name));
    }

    /// Adds the error of what the configuration file in the folder of a graph lists, and that is not served.
    fn not_listed(&mut self, entry: &RefusedEntry) {
        let mut rows = self.rows.iter();
        if !rows.any(|row| row.name == entry.name) {
            self.row(CheckedKind::Graph, &entry.name, Vec::new(), REFUSED);
        }
        let place = match entry.place.path.as_str() {
            "" => String::new(),
            _ => format!(", at {}", entry.place),
        };
        let text = format!("{}{place}", entry.reason);
        let error = ServeFinding::text(Severity::Error, text);
        self.record(error.about(CheckedKind::Graph, &entry.name));
    }

    fn row(&mut self, kind: CheckedKind, name: &str, versions: Vec<i64>, state: &'static str) {
        self.rows.push(Row {
            name: name.to_owned(),
            kind,
            versions,
            state,
        });
    }
}

/// Warns of ports of the flags that are taken at the moment. A check needs none, and by the time of the start they may be
/// free: it is no finding.
fn warn_of_taken_ports(settings: &ServerSettings) {
    // Those of the example are not given.
    if settings.flags.demo {
        return;
    }
    for (flag, port, addresses) in [
        ("--port", settings.port, &settings.grpc_bind_addresses),
        (
            "--rest-port",
            settings.rest_port,
            &settings.rest_bind_addresses,
        ),
        (
            "--management-port",
            settings.management_port,
            &settings.management_bind_addresses,
        ),
    ] {
        let loopback = ["0.0.0.0", "::", "127.0.0.1", "localhost"];
        let has_loopback = addresses.iter().any(|it| loopback.contains(&it.as_str()));
        let Some(port) = port.filter(|_| has_loopback) else {
            continue;
        };
        let bound = TcpListener::bind((Ipv4Addr::LOCALHOST, port));
        if bound.is_err_and(|error| error.kind() == io::ErrorKind::AddrInUse) {
            ui::warn(&format!(
                "warning: port {port} of {flag} is taken now, and a server would not start"
            ));
        }
    }
}

/// Makes a runtime for what has to be done within one.
fn runtime() -> io::Result<Runtime> {
    runtime::Builder::new_current_thread().enable_all().build()
}

/// Time limits for custom nodes and graphs.
#[derive(Debug, Default)]
struct Limit {
    /// Flags of the server, which have the limits.
    flags: Arc<Flags>,
    /// Destination of a JSON document if the time is up.
    stdout: Option<StdoutGuard>,
}

/// Guard of a check with a time limit; ends the watch when it is dropped.
struct Watched(#[expect(dead_code, reason = "its end is what the watch hears")] mpsc::Sender<()>);

impl Limit {
    /// Watches the check of a pipeline.
    fn of_pipelines(&self, what: String) -> Watched {
        let seconds = self.flags.custom_node_load_seconds;
        self.watch(what, seconds, "--custom-node-load-seconds")
    }

    /// Watches the check of a graph.
    fn of_graphs(&self, what: String) -> Watched {
        self.watch(what, self.flags.graph_load_seconds, "--graph-load-seconds")
    }

    /// Ends the process if a check takes too long: code that does not return cannot be stopped
    /// otherwise.
    fn watch(&self, what: String, seconds: u32, flag: &'static str) -> Watched {
        let limit = Duration::from_secs(seconds.into());
        let (sender, ended) = mpsc::channel();
        let stdout = self.stdout.as_ref().and_then(|it| it.try_clone().ok());
        let watch = move || {
            if ended.recv_timeout(limit) == Err(RecvTimeoutError::Timeout) {
                let text = format!("{what} took longer than {limit:?}");
                let failure = Failure::failed(text)
                    .hint(format!("check what they do at startup, or raise {flag}"));
                if let Some(mut stdout) = stdout {
                    let _ = stdout.print(&of_failure(&failure));
                }
                let _ = failure.print();
                std::process::exit(i32::from(failure.kind().code()));
            }
        };
        // Without a thread nothing is watched, and all is looked at all the same.
        let _ = task::thread("check limit", watch);
        Watched(sender)
    }
}

/// JSON form of the results; the fields are in output order.
#[derive(Debug, Serialize)]
struct ReportJson<'a> {
    verdict: CheckVerdict,
    models: &'a [Row],
    /// Lines of the findings.
    #[serde(flatten)]
    lines: Diagnostics<&'a str>,
    findings: Vec<&'a ServeFinding>,
    hint: Option<String>,
}

/// Returns the document of an aborted check.
pub(crate) fn of_failure(failure: &Failure) -> String {
    let mut report = Report::default();
    report.add_failure(failure);
    report.json()
}

/// Returns whether flags that could not be parsed ask for the document of a check.
pub(crate) fn is_asked(flags: &[OsString]) -> bool {
    let checks = |flag: &OsString| {
        let flag = flag.to_string_lossy();
        flag == "--check" || flag.starts_with("--check=")
    };
    let is_json = |pair: &[OsString]| pair[0] == "--output" && pair[1] == "json";
    let is_json = flags.iter().any(|flag| flag == "--output=json") || flags.windows(2).any(is_json);
    is_json && flags.iter().any(checks)
}

impl Report {
    /// Adds the reason of an aborted check, unless there are errors already.
    fn add_failure(&mut self, failure: &Failure) {
        if self.findings.errors.is_empty() {
            // Without the usage that follows the errors of flags.
            let line = failure.line();
            let line = line.split("\n\n").next().unwrap_or_default().to_owned();
            let hint = failure.hints().first().cloned();
            let finding = ServeFinding::text(Severity::Error, line);
            self.record(finding.hint(hint));
        }
        self.hints.extend(failure.hints().iter().cloned());
    }

    /// Writes the report as one JSON object.
    fn json(&self) -> String {
        let counts = Counts::from(&self.findings);
        let Diagnostics {
            errors,
            warnings,
            unchecked,
        } = &self.findings;
        let report = ReportJson {
            verdict: CheckVerdict::of(CheckedKind::Model, counts),
            models: &self.rows,
            lines: Diagnostics {
                errors: lines(errors).collect(),
                warnings: lines(warnings).collect(),
                unchecked: lines(unchecked).collect(),
            },
            findings: errors.iter().chain(warnings).chain(unchecked).collect(),
            hint: match self.hints.is_empty() {
                true => self.note.clone(),
                false => Some(self.hints.join("; ")),
            },
        };
        serde_json::to_string(&report).expect("texts and numbers have a JSON form") + "\n"
    }

    /// Draws the servables as a table, with a column for the kind unless all are models.
    fn table(&self, look: Look) -> String {
        if self.rows.is_empty() {
            return String::new();
        }
        let has_kinds = self.rows.iter().any(|row| row.kind != CheckedKind::Model);
        let mut table = match has_kinds {
            true => Table::new().left(["name", "kind", "versions", "state"]),
            false => Table::new().left(["model", "versions", "state"]),
        };
        for row in &self.rows {
            let versions: Vec<String> = row.versions.iter().map(i64::to_string).collect();
            let versions = match versions.join(", ") {
                none if none.is_empty() => NOTHING.to_owned(),
                versions => versions,
            };
            let kind = has_kinds.then(|| row.kind.name().to_owned());
            let tone = match row.state {
                GOOD => Tone::Good,
                ERROR | REFUSED => Tone::Bad,
                _ => Tone::Warn,
            };
            let state = Cell::toned(row.state.to_owned(), Some(tone));
            let words = [row.name.clone()].into_iter().chain(kind).chain([versions]);
            table.row(words.map(Cell::from).chain([state]));
        }
        table.draw(look)
    }

    /// Returns a failure if there are errors, warnings, or unchecked parts.
    fn end(self) -> Result<(), Failure> {
        let found = self.findings;
        let counts = Counts::from(&found);
        let verdict = CheckVerdict::of(CheckedKind::Model, counts);
        if let Some(note) = self.note.filter(|_| verdict != CheckVerdict::Errors) {
            ui::note(&format!("note: {note}"));
        }
        let failure = match verdict {
            CheckVerdict::Ok => return Ok(()),
            CheckVerdict::Errors => Failure::failed(format!("the check found {counts}")),
            _ => counts.without_errors(),
        };
        let reported = [
            ("error", found.errors),
            ("warning", found.warnings),
            ("not checked", found.unchecked),
        ];
        let lines = reported.iter().flat_map(|(what, found)| {
            let lines = lines(found);
            lines.map(move |line| format!("{what}: {line}"))
        });
        let failure = lines.fold(failure, Failure::detail);
        Err(self.hints.into_iter().fold(failure, Failure::hint))
    }
}

/// Returns the lines of findings.
fn lines(findings: &[ServeFinding]) -> impl Iterator<Item = &str> {
    findings.iter().map(|finding| &*finding.line)
}
