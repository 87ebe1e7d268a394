//! Paths of models on the command line, or one of a folder with a configuration file.

use std::path::PathBuf;

use super::{
    FlagError, Flags,
    flag::{Flag, FlagScope},
    given,
};
use crate::config::file::config_of_folder;

/// Flags of single models, besides those that a file refuses.
const OF_MODELS: [&str; 3] = ["model_name", "model_path", "model_repository_path"];

/// Paths of models on the command line.
pub(super) struct PathArguments {
    pub(super) paths: Vec<PathBuf>,
    /// Restricts the server to this machine unless addresses are given.
    pub(super) is_local: bool,
}

impl PathArguments {
    /// Returns the configuration file of the one folder that is named, if there is one.
    pub(super) fn config(&self, flags: &Flags) -> Result<Option<PathBuf>, FlagError> {
        let [folder] = &self.paths[..] else {
            return Ok(None);
        };
        let Some(file) = config_of_folder(folder) else {
            return Ok(None);
        };
        let of_models =
            |flag: &Flag| flag.scope == FlagScope::Model || OF_MODELS.contains(&flag.name);
        let flags = given(flags, of_models);
        if flags.is_empty() {
            return Ok(Some(file));
        }
        let name = file.file_name().unwrap_or_default();
        Err(FlagError::FolderAndParameters {
            folder: folder.display().to_string(),
            file: name.to_string_lossy().into_owned(),
            flags,
        })
    }
}

/// Returns name and base path of the one model of flags.
pub(super) fn named(flags: &Flags) -> Result<(String, String), FlagError> {
    let (Some(name), Some(base_path)) = (&flags.model_name, &flags.model_path) else {
        return Err(FlagError::ModelMissing);
    };
    match base_path.to_str() {
        Some(base_path) => Ok((name.clone(), base_path.to_owned())),
        None => Err(FlagError::ModelPath(base_path.clone())),
    }
}

#[cfg(test)]
mod tests {
    use std::{ffi::OsStr, os::unix::ffi::OsStrExt, path::Path};

    use crate::config::{ClosedPorts, Config, ConfigSource, FlagEnvironment, FlagError, Flags};

    fn of(flags: Flags, paths: &[&Path]) -> Result<Config, FlagError> {
        let paths = paths.iter().map(|path| path.to_path_buf()).collect();
        Config::from_paths(flags, paths, &FlagEnvironment::default())
    }

    #[test]
    fn one_folder_with_a_configuration_file_stands_for_it() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let file = folder.join("config.json");
        std::fs::write(folder.join("graph.pbtxt"), "").unwrap();
        std::fs::write(&file, "{\"architectures\": []}").unwrap();
        let config = of(Flags::default(), &[folder]).unwrap();
        assert!(matches!(config.source, ConfigSource::Paths(_)));
        std::fs::write(&file, "{\"model_config_list\": []}").unwrap();
        let config = of(Flags::default(), &[folder]).unwrap();
        let ConfigSource::File { path, .. } = config.source else {
            panic!("no file");
        };
        assert_eq!(path, file);
        // Ports and addresses are those of paths.
        let settings = config.settings;
        assert_eq!(
            (settings.port, settings.rest_port),
            (Some(9000), Some(8000))
        );
        assert_eq!(settings.grpc_bind_addresses, ["127.0.0.1"]);
        // A socket stands for a port.
        let socket = Flags {
            rest_unix_socket: Some(folder.join("s")),
            ..Flags::default()
        };
        let settings = of(socket, &[folder]).unwrap().settings;
        assert_eq!((settings.port, settings.rest_port), (None, None));
        let other = folder.join("other");
        std::fs::create_dir(&other).unwrap();
        let config = of(Flags::default(), &[folder, &other]).unwrap();
        assert!(matches!(config.source, ConfigSource::Paths(_)));
        let repository = Flags {
            model_repository_path: Some(folder.to_owned()),
            ..Flags::default()
        };
        let config = of(repository, &[]).unwrap();
        assert!(matches!(config.source, ConfigSource::Paths(_)));
    }

    #[test]
    fn flags_of_a_model_are_refused_beside_the_file_of_a_folder() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("config.json");
        std::fs::write(file, "{\"model_config_list\": []}").unwrap();
        let flags = Flags {
            model_name: Some("other".to_owned()),
            nireq: 2,
            ..Flags::default()
        };
        let refused = of(flags, &[folder.path()]).unwrap_err();
        assert!(refused.is_usage());
        let text = refused.to_string();
        let end =
            "with model_name, nireq: its config.json says what is served, and with which settings";
        assert!(text.ends_with(end), "{text}");
        // As with a file that is named.
        let flags = Flags {
            stateful: true,
            ..Flags::default()
        };
        let config = of(flags, &[folder.path()]).unwrap();
        assert_eq!(config.warnings.len(), 1);
    }

    #[test]
    fn the_path_of_a_model_is_utf_8() {
        let flags = Flags {
            model_name: Some("m".to_owned()),
            model_path: Some(OsStr::from_bytes(b"/m/\xff").into()),
            port: 9000,
            ..Flags::default()
        };
        let refused = Config::from_flags(flags, &FlagEnvironment::default()).unwrap_err();
        assert!(refused.is_usage());
        insta::assert_snapshot!(refused, @r#"model_path is not UTF-8: found "/m/\xFF"; rename the file or folder, or link to it by another name"#);
    }

    #[test]
    fn a_port_that_is_given_as_0_stays_closed_beside_paths() {
        let served = |flags: Flags, paths: &[&str], grpc: bool, rest: bool| {
            let paths = paths.iter().map(Into::into).collect();
            let closed = ClosedPorts { grpc, rest };
            let environment = FlagEnvironment::default();
            let config = Config::from_paths_without(flags, paths, closed, &environment)?;
            let settings = config.settings;
            let address = settings.grpc_bind_addresses[0].clone();
            Ok((settings.port, settings.rest_port, address))
        };
        let here = |grpc, rest| Ok((grpc, rest, "127.0.0.1".to_owned()));
        let usual = Flags::default();
        assert_eq!(
            served(usual.clone(), &["a.onnx"], true, false),
            here(None, Some(8000))
        );
        assert_eq!(
            served(usual.clone(), &["a.onnx"], false, true),
            here(Some(9000), None)
        );
        let both = served(usual, &["a.onnx"], true, true);
        assert_eq!(both, Err(FlagError::PortsUnset));
        let repository = Flags {
            model_repository_path: Some("all".into()),
            ..Flags::default()
        };
        assert_eq!(served(repository, &[], true, false), here(None, Some(8000)));
        let other = Flags {
            rest_port: 1,
            ..Flags::default()
        };
        assert_eq!(served(other, &["a.onnx"], true, false), here(None, Some(1)));
    }
}
