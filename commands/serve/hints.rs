//! Next steps for a server that does not start.

use std::{
    io,
    path::{Component, Path},
};

use ovms::{
    auth::AuthFileError,
    config::{FileError, FlagError, PathSource},
    engine::reload::{PathError, ReloadError},
    metrics::NameError,
    model::{VersionFailure, others, repository::RepositoryError, storage::SourceError},
    server::{BindError, StartError, UnixSocketError},
};

use super::load_hints::of_load;
use crate::{
    check,
    error::{Failure, FailureKind},
    ui,
};

/// Returns the failure for an invalid flag: texts of the command line are printed as they are.
pub(super) fn of_flags(error: &FlagError) -> Failure {
    let text = error.to_string();
    let failure = match error {
        // No start script knows these.
        FlagError::Batching(_) | FlagError::BatchingStateful => Failure::usage(text),
        _ if error.is_usage() => Failure::usage_verbatim(text),
        _ => Failure::failed(text),
    };
    match error {
        FlagError::ModelMissing => failure.hint(
            "name a model file or a folder: `ovms serve model.onnx`; or give --config-path, or both \
             --model-name and --model-path, or --demo for an example",
        ),
        FlagError::GrpcWorkers {
            cores,
            variable: Some(number),
        } => failure.hint(format!(
            "the environment has GRPC_SERVERS={number}, which overrides --grpc-workers; unset it, \
             or set it to a number from 1 to {cores}"
        )),
        FlagError::FileAndParameters => {
            failure.hint("set them in the file, in the entry of the model")
        }
        FlagError::FolderAndParameters { .. } => failure.hint(
            "set them in the file, in the entry of the model; or name the models in the folder one by one",
        ),
        FlagError::PortsUnset => {
            failure.hint(
                "give --port for gRPC, --rest-port for REST, or both (0 disables a port); --grpc-unix-socket or \
                 --rest-unix-socket work as well",
            )
        }
        FlagError::TlsPair("tls_cert", _) => {
            failure.hint("give --tls-key FILE with the private key of the certificate, in PEM")
        }
        FlagError::TlsPair("tls_key", _) => {
            failure.hint("give --tls-cert FILE with the certificate of the key, in PEM")
        }
        FlagError::TlsPair(given, "tls_cert") => failure.hint(format!(
            "give --tls-cert FILE and --tls-key FILE, to enable TLS, or omit --{}",
            given.replace('_', "-")
        )),
        FlagError::TlsPair(given, port) => failure.hint(format!(
            "give --{}, or leave out --{}",
            port.replace('_', "-"),
            given.replace('_', "-")
        )),
        FlagError::ClientAuthWithoutCa => failure.hint(
            "give --tls-client-ca FILE with the CA of the client certificates, or --tls-client-auth off",
        ),
        FlagError::TlsNowhere => failure.hint(
            "give a --port or --rest-port, and leave out --grpc-tls=false and --rest-tls=false; Unix sockets have no TLS",
        ),
        FlagError::SequenceStore(error) => failure.may_hint(error.hint()),
        FlagError::NotStateful | FlagError::NeedsStateful(_) => failure.hint(
            "add --stateful; with --config-path, set both in the file, in the entry of the model",
        ),
        FlagError::MetricsTwice => failure.hint(
            "leave out --metrics-enable, or take `monitoring` out of the file, which has the list of families as well",
        ),
        _ => failure,
    }
}

/// Returns the failure for a path that names nothing to serve.
pub(super) fn of_path(error: &PathError) -> Failure {
    let kind = match error.is_usage() {
        true => FailureKind::Usage,
        false => FailureKind::Failed,
    };
    Failure::of(kind, error).may_hint(match error {
        PathError::Missing { nearest, .. } => {
            let nearest = nearest.as_deref();
            nearest.map(|path| format!("did you mean `{path}`?"))
        }
        PathError::Unreadable { path, source } => {
            let is_denied = source.kind() == io::ErrorKind::PermissionDenied;
            is_denied.then(|| format!("let the user of the server read {}", path.display()))
        }
        PathError::NoModel(path) => {
            let is_json = path.extension().is_some_and(|ending| ending == "json");
            match of_graph(path) {
                Some(folder) => Some(format!(
                    "for the graph in its folder: `ovms serve {}`",
                    ui::shell_word(&folder.display().to_string())
                )),
                None if is_json => {
                    let path = ui::shell_word(&path.display().to_string());
                    Some(format!("for a configuration file: `ovms serve --config-path {path}`"))
                }
                None => others::of_other_server(path),
            }
        }
        PathError::Half { .. } => Some("copy both files to the same folder".to_owned()),
        PathError::Empty(path) => Some(format!(
            "a model file is there, or in a folder of its version (1), or in a folder of its name, such \
             as {}",
            path.join("resnet/1/model.onnx").display()
        )),
        PathError::Several { path, files } => {
            let files = files.iter().map(|file| path.join(file).display().to_string());
            let files: Vec<String> = files.map(|file| ui::shell_word(&file)).collect();
            Some(format!("name the files: `ovms serve {}`", files.join(" ")))
        }
        PathError::Model(path) => {
            let path = ui::shell_word(&path.display().to_string());
            Some(format!("to serve it: `ovms serve {path}`"))
        }
        PathError::Twice(_) => Some("name each path once".to_owned()),
        PathError::Clash { .. } => Some(
            "rename one of them, or give both a name in a file for --config-path".to_owned(),
        ),
        PathError::OneName(_) => {
            Some("omit it: each model is named after its file or folder".to_owned())
        }
    })
}

/// Returns the folder of a graph of which a file is one: its graph, or a handler beside that.
fn of_graph(path: &Path) -> Option<&Path> {
    let folder = path.parent()?;
    let is_part = path
        .extension()
        .is_some_and(|ending| ending == "py" || ending == "pbtxt");
    (is_part && PathSource::graph_of("", folder).is_some()).then_some(folder)
}

/// Returns the failure for a port or Unix socket that was not opened.
pub(super) fn of_bind(error: &BindError) -> Failure {
    let failure = Failure::of(FailureKind::Failed, error);
    match error {
        BindError::Port { port, source, .. } => failure.hint(of_port(*port, source.as_ref())),
        BindError::Tls(error) => failure.may_hint(error.hint()),
        BindError::Auth(error) => of_auth(failure, error),
        BindError::AuditLog { path, source } => match source.kind() {
            io::ErrorKind::PermissionDenied => {
                let path = path.display();
                failure.hint(format!("let the user that runs ovms write to {path}"))
            }
            io::ErrorKind::NotFound => failure.hint("create its folder, or choose another path"),
            io::ErrorKind::IsADirectory => {
                let file = path.join("audit.log");
                failure.hint(format!("name a file, such as {}", file.display()))
            }
            _ => failure,
        },
        BindError::UnixSocket { path, source, .. } => {
            failure.may_hint(of_unix_socket(path, source))
        }
    }
}

/// Adds the next step for a file of identities; its errors have places and next steps of their own.
fn of_auth(failure: Failure, error: &AuthFileError) -> Failure {
    match error {
        AuthFileError::Read { .. } | AuthFileError::Size(_) => failure.may_hint(error.hint()),
        // Each in a line of its own.
        AuthFileError::Contents { path, errors } => {
            let text = format!("cannot use --auth {}", path.display());
            let errors = errors.iter().map(|error| format!("{error}\n"));
            errors.fold(Failure::failed(text), Failure::detail)
        }
    }
}

fn of_port(port: u16, source: Option<&io::Error>) -> String {
    match source {
        None => format!("another process listens on port {port}; stop it, or choose another port"),
        Some(source) if port < 1024 && source.kind() == io::ErrorKind::PermissionDenied => format!(
            "a port below 1024, such as {port}, needs root or CAP_NET_BIND_SERVICE; choose a port \
             from 1024 on, or give the program that capability"
        ),
        Some(_) => "give an address of this machine, or 0.0.0.0 for all of them".to_owned(),
    }
}

/// Returns the next step for a Unix socket.
fn of_unix_socket(path: &Path, error: &UnixSocketError) -> Option<String> {
    let folder = path.parent().unwrap_or(path).display();
    Some(match error {
        UnixSocketError::TooLong(_) => {
            "the path is too long for the system; choose a shorter one, such as below /run"
                .to_owned()
        }
        UnixSocketError::NotASocket(_) => format!(
            "remove {} if nobody needs it, or choose another path",
            path.display()
        ),
        UnixSocketError::InUse => "stop that process, or choose another path".to_owned(),
        UnixSocketError::NoFolder(folder) => {
            format!(
                "create it (`mkdir -p {}`), or choose another path",
                folder.display()
            )
        }
        UnixSocketError::System { source, .. }
            if source.kind() == io::ErrorKind::PermissionDenied =>
        {
            format!("let the user that runs ovms write to {folder}, or choose another path")
        }
        UnixSocketError::System { .. } => return None,
    })
}

/// Returns the failure for a model that was not loaded.
pub(super) fn of_start(error: &StartError) -> Failure {
    Failure::of(FailureKind::Failed, error).may_hint(match error {
        StartError::Error(ReloadError::Repository { source, .. }) => of_repository(source),
        StartError::Error(ReloadError::Version(version)) => match version.source.as_ref() {
            VersionFailure::Source(source) => source.hint(),
            VersionFailure::Load(error) => of_load(error),
            _ => None,
        },
        StartError::Error(ReloadError::Paths(error)) => return of_path(error),
        StartError::Metrics(error) => Some(of_metrics(error)),
        StartError::Error(_) | StartError::Lost | StartError::Store(_) => None,
    })
}

/// Returns the next step for a repository that cannot be read.
fn of_repository(error: &SourceError) -> Option<String> {
    let SourceError::Local(RepositoryError::BasePath { path, .. }) = error else {
        return error.hint();
    };
    let has_parent = path.components().any(|part| part == Component::ParentDir);
    Some(match (has_parent, path.canonicalize()) {
        (true, Ok(path)) => format!("give --model-path without `..`: {}", path.display()),
        (true, Err(_)) => "give --model-path without `..`".to_owned(),
        (false, _) => "--model-path is a folder with version folders, such as /models/resnet for \
                       /models/resnet/1/model.xml, a folder with one model, or a model file"
            .to_owned(),
    })
}

/// Returns the next step for a wrong name of a family.
pub(super) fn of_metrics(error: &NameError) -> String {
    match error {
        NameError::Unknown {
            nearest: Some(nearest),
            ..
        } => format!("did you mean `{nearest}`?"),
        NameError::Unknown { .. } => {
            "docs/monitoring.md of the server lists the families".to_owned()
        }
        NameError::Repeated { .. } => "name each family once".to_owned(),
    }
}

/// Returns the failure for a rejected file: each error with its line. `argument` is the flag that
/// named it.
pub(crate) fn explain(error: &FileError, argument: &str) -> Failure {
    let (path, text, more) = match error {
        FileError::Read { path, source } => {
            return Failure::of(FailureKind::Failed, error).hint(match source.kind() {
                std::io::ErrorKind::PermissionDenied => format!(
                    "permission denied: let the user that runs ovms read {}",
                    path.display()
                ),
                _ => format!(
                    "{argument} names a JSON file; is {} the right one?",
                    path.display()
                ),
            });
        }
        FileError::Syntax { path, text, .. } => (path, text, 0),
        FileError::Schema {
            path, text, more, ..
        } => (path, text, *more),
    };
    let errors = error.errors();
    let what = match error {
        FileError::Syntax { .. } => "is no JSON".to_owned(),
        _ => format!("has {}", ui::counted(errors.len() + more, "error")),
    };
    let file = path.display().to_string();
    let failure = Failure::failed(format!("the configuration file {file} {what}"));
    let errors = errors.iter().cloned().map(|error| error.file(&file));
    let details = errors.map(|error| check::show(&error, text));
    let more = (more > 0).then(|| format!("and {more} more"));
    details.chain(more).fold(failure, Failure::detail)
}

#[cfg(test)]
mod tests {
    use std::{io, path::Path};

    use ovms::{
        config::{Defaults, parse},
        server::BindError,
    };

    use super::{explain, of_bind};

    #[test]
    fn a_port_that_needs_rights_says_so() {
        let failure = of_bind(&BindError::Port {
            side: "REST",
            address: "0.0.0.0".to_owned(),
            port: 80,
            source: Some(io::ErrorKind::PermissionDenied.into()),
        });
        insta::assert_snapshot!(failure.text(), @r"
        error: Failed to start REST server at 0.0.0.0:80
          caused by: permission denied
        hint: a port below 1024, such as 80, needs root or CAP_NET_BIND_SERVICE; choose a port from 1024 on, or give the program that capability
        ");
    }

    fn explained(content: &[u8]) -> String {
        let path = Path::new("/models/config.json");
        let refused = parse(content, path, &Defaults::default()).unwrap_err();
        explain(&refused, "--config-path").text()
    }

    #[test]
    fn every_error_is_marked_in_its_line() {
        insta::assert_snapshot!(explained(br#"{
    "model_config_list": [
        {"config": {"name": "resnet", "base_path": "/models/resnet", "nireq": "4"}},
	{"config": {"name": "face", "base_pth": "/models/face"}}
    ]
}"#), @r#"
        error: the configuration file /models/config.json has 2 errors
          model_config_list[0].config.nireq: found the text "4"; expected a whole number from 0
           --> /models/config.json:3:79
            |
          3 |         {"config": {"name": "resnet", "base_path": "/models/resnet", "nireq": "4"}},
            |                                                                               ^^^
          model_config_list[1].config.base_pth: found the unknown key `base_pth`; expected one of name, base_path, batch_size, shape, layout, mean, scale, color_format, precision, model_version_policy, nireq, inference_timeout_ms, dynamic_batching, target_device, plugin_config, stateful, idle_sequence_cleanup, low_latency_transformation, state_mode, sequence_batch, max_sequence_number, drain_sequences_seconds, cache_dir, allow_cache, custom_loader_options, graph_path, subconfig, warmup
           --> /models/config.json:4:30
            |
          4 |     {"config": {"name": "face", "base_pth": "/models/face"}}
            |                                 ^^^^^^^^^^
            |
            = help: did you mean `base_path`?
        "#);
        let long = format!("{{\"model_config_list\": [{}7]}}", " ".repeat(500));
        insta::assert_snapshot!(explained(long.as_bytes()), @"
        error: the configuration file /models/config.json has 1 error
          model_config_list[0]: found 7; expected an object with config
           --> /models/config.json:1:524
            |
          1 | ...                                                                7]}
            |                                                                    ^
        ");
        insta::assert_snapshot!(explained(b"{\n  \"model_config_list\": [\n"), @r#"
        error: the configuration file /models/config.json is no JSON
          found `[` (unterminated array); expected JSON
           --> /models/config.json:2:24
            |
          2 |   "model_config_list": [
            |                        ^
        "#);
        insta::assert_snapshot!(explained(b"\xFF"), @"
        error: the configuration file /models/config.json is no JSON
          found the byte 0xFF; expected text in UTF-8
           --> /models/config.json:1:1
            |
          1 | �
            | ^
        ");
    }
}
