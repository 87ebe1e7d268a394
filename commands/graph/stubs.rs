//! `ovms graph stubs`: the package `pyovms` for a plain interpreter, with its types.

use std::{
    fs,
    path::{Path, PathBuf},
};

use ovms::python;
use serde_json::json;

use crate::{
    error::Failure,
    places,
    ui::{self, visible},
};

/// Text at the end of the help.
const AFTER_HELP: &str = "\
Handlers import `pyovms`, which comes with the server. This installs the same package into a virtual \
environment, so that handlers can be imported and tested without a server, with types for editors and \
type checkers. The server still uses its own copy. `pip uninstall pyovms` removes the package.

Examples:
  ovms graph stubs
  ovms graph stubs --into .venv

Exit codes: 0 done; 1 the environment does not exist, or cannot be written to; 64 usage.";

/// The flags as typed.
#[derive(Debug, clap::Args)]
#[command(after_long_help = AFTER_HELP)]
pub(crate) struct GraphStubsArgs {
    /// Virtual environment, or a folder of modules
    ///
    /// Defaults to the active virtual environment (VIRTUAL_ENV), or else .venv.
    #[arg(long, value_name = "DIR")]
    into: Option<PathBuf>,

    #[command(flatten)]
    output: ui::OutputArgs,
}

/// Runs the subcommand.
pub(super) fn run(args: &GraphStubsArgs) -> Result<(), Failure> {
    let folder = args.into.clone().map_or_else(active, Ok)?;
    let place = packages(&folder)?;
    let files = files();
    for (name, contents) in &files {
        let path = place.join(name);
        let written = path.parent().map_or(Ok(()), fs::create_dir_all);
        written
            .and_then(|()| fs::write(&path, contents))
            .map_err(|error| Failure::cannot("write", &path, &error))?;
    }
    let shown = place.display().to_string();
    if args.output.is_json() {
        let files: Vec<&String> = files.iter().map(|(name, _)| name).collect();
        return ui::print_json(&json!({ "folder": shown, "files": files }));
    }
    let shown = visible(&shown);
    let next = match ui::quiet() {
        true => "",
        false => "next: python -c \"import pyovms\"\n",
    };
    ui::print(format!("installed pyovms in {shown}\n{next}"))
}

/// Returns the files of the package, by their names in the folder of packages.
fn files() -> Vec<(String, Vec<u8>)> {
    let info = format!("pyovms-{}.dist-info", env!("CARGO_PKG_VERSION"));
    let metadata = format!(
        "Metadata-Version: 2.1\nName: pyovms\nVersion: {}\nSummary: What handlers of ovms import, for \
         tests without a server\n",
        env!("CARGO_PKG_VERSION")
    );
    let package = python::PACKAGE.iter();
    let package = package.map(|(name, contents)| (format!("pyovms/{name}"), contents.to_vec()));
    let mut files: Vec<_> = package.collect();
    files.push((format!("{info}/METADATA"), metadata.into_bytes()));
    files.push((format!("{info}/INSTALLER"), b"ovms\n".to_vec()));
    let record = format!("{info}/RECORD");
    let lines = files.iter().map(|(name, _)| name).chain([&record]);
    let lines: String = lines.map(|name| format!("{name},,\n")).collect();
    files.push((record, lines.into_bytes()));
    files
}

/// Returns the default virtual environment.
fn active() -> Result<PathBuf, Failure> {
    if let Some(folder) = places::path("VIRTUAL_ENV") {
        return Ok(folder);
    }
    let folder = PathBuf::from(".venv");
    if folder.join("pyvenv.cfg").is_file() {
        return Ok(folder);
    }
    let text = "found no virtual environment: none is active, and there is no .venv here";
    let hint = "activate one, or name it with --into DIR; `python3 -m venv .venv` makes one";
    Err(Failure::failed(text).hint(hint))
}

/// Returns the folder of packages of a virtual environment, or any other folder as it is.
fn packages(folder: &Path) -> Result<PathBuf, Failure> {
    if !folder.is_dir() {
        let failure = Failure::failed(format!("there is no folder {}", folder.display()));
        let hint = "name a virtual environment; `python3 -m venv .venv` makes one";
        return Err(failure.hint(hint));
    }
    if !folder.join("pyvenv.cfg").is_file() {
        return Ok(folder.to_owned());
    }
    let versions = fs::read_dir(folder.join("lib"))
        .into_iter()
        .flatten()
        .flatten();
    let places = versions.map(|version| version.path().join("site-packages"));
    let places = places.filter(|place| place.is_dir());
    let newest = places.max_by_key(|place| (release(place), place.clone()));
    newest.ok_or_else(|| {
        let text = format!("{} has no lib/python*/site-packages", folder.display());
        Failure::failed(text).hint("it is marked as a virtual environment; recreate it")
    })
}

/// Returns the release of Python that packages are of, as in `lib/python3.12/site-packages`.
fn release(packages: &Path) -> Option<(u32, u32)> {
    let name = packages.parent()?.file_name()?.to_str()?;
    let (major, minor) = name.strip_prefix("python")?.split_once('.')?;
    // A build without the lock of the interpreter has a letter behind it.
    let minor = minor.trim_end_matches(|c: char| !c.is_ascii_digit());
    Some((major.parse().ok()?, minor.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::packages;

    #[test]
    fn the_newest_python_of_an_environment_counts() {
        let folder = tempfile::tempdir().unwrap();
        let place = |name: &str| folder.path().join("lib").join(name).join("site-packages");
        for name in ["python3.9", "python3.12", "python3.11", "other"] {
            fs::create_dir_all(place(name)).unwrap();
        }
        fs::write(folder.path().join("pyvenv.cfg"), "").unwrap();
        assert_eq!(packages(folder.path()).unwrap(), place("python3.12"));
        fs::create_dir_all(place("python3.13t")).unwrap();
        assert_eq!(packages(folder.path()).unwrap(), place("python3.13t"));
    }
}
