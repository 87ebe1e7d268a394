//! `ovms graph stubs`: the module `pyovms` for a plain interpreter, and its types.

use std::{
    env, fs,
    path::{Path, PathBuf},
};

use ovms::python;
use serde_json::json;

use crate::{
    error::Failure,
    ui::{self, visible},
};

/// Text at the end of the help.
const AFTER_HELP: &str = "\
Handlers import `pyovms`, which is part of the server. This is a module of the same name in plain \
Python, so that handlers can be imported and tested without one, and the types for editors and \
type checkers. In the server, its own module is used all the same. `pip uninstall pyovms` removes \
it.

Examples:
  ovms graph stubs
  ovms graph stubs --into .venv

Exit codes: 0 done; 1 no such environment, or it cannot be written to; 64 usage.";

/// The flags as typed.
#[derive(Debug, clap::Args)]
#[command(after_long_help = AFTER_HELP)]
pub(crate) struct GraphStubsArgs {
    /// Virtual environment, or a folder of modules
    ///
    /// Without it, the active virtual environment (VIRTUAL_ENV), or else .venv.
    #[arg(long, value_name = "DIR")]
    into: Option<PathBuf>,

    #[command(flatten)]
    output: ui::OutputArgs,
}

/// Runs the subcommand.
pub(super) fn run(args: &GraphStubsArgs) -> Result<(), Failure> {
    let folder = match &args.into {
        Some(folder) => folder.clone(),
        None => active()?,
    };
    let place = packages(&folder)?;
    let files = files();
    for (name, text) in &files {
        let path = place.join(name);
        let written = path.parent().map_or(Ok(()), fs::create_dir_all);
        written
            .and_then(|()| fs::write(&path, text))
            .map_err(|error| Failure::cannot("write", &path, &error))?;
    }
    let shown = place.display().to_string();
    if args.output.is_json() {
        let files: Vec<&String> = files.iter().map(|(name, _)| name).collect();
        return ui::print_json(&json!({ "folder": shown, "files": files }));
    }
    ui::print(format!(
        "installed pyovms in {}\nnext: python -c \"import pyovms\"\n",
        visible(&shown)
    ))
}

/// Returns the files of the package, by their names in the folder of packages.
fn files() -> Vec<(String, String)> {
    let info = format!("pyovms-{}.dist-info", env!("CARGO_PKG_VERSION"));
    let metadata = format!(
        "Metadata-Version: 2.1\nName: pyovms\nVersion: {}\nSummary: What handlers of ovms import, for \
         tests without a server\n",
        env!("CARGO_PKG_VERSION")
    );
    let mut files = vec![
        ("pyovms/__init__.py".to_owned(), python::PLAIN.to_owned()),
        ("pyovms/__init__.pyi".to_owned(), python::STUB.to_owned()),
        ("pyovms/py.typed".to_owned(), String::new()),
        (format!("{info}/METADATA"), metadata),
        (format!("{info}/INSTALLER"), "ovms\n".to_owned()),
    ];
    let record = format!("{info}/RECORD");
    let lines = files.iter().map(|(name, _)| name).chain([&record]);
    let lines: String = lines.map(|name| format!("{name},,\n")).collect();
    files.push((record, lines));
    files
}

/// Returns the default virtual environment.
fn active() -> Result<PathBuf, Failure> {
    if let Some(folder) = env::var_os("VIRTUAL_ENV").filter(|folder| !folder.is_empty()) {
        return Ok(folder.into());
    }
    let folder = PathBuf::from(".venv");
    if folder.join("pyvenv.cfg").is_file() {
        return Ok(folder);
    }
    Err(
        Failure::failed("found no virtual environment: none is active, and there is no .venv here")
            .hint("activate one, or name it with --into DIR; `python3 -m venv .venv` makes one"),
    )
}

/// Returns the folder of packages of a virtual environment, or any other folder as it is.
fn packages(folder: &Path) -> Result<PathBuf, Failure> {
    if !folder.is_dir() {
        return Err(
            Failure::failed(format!("there is no folder {}", folder.display()))
                .hint("name a virtual environment; `python3 -m venv .venv` makes one"),
        );
    }
    if !folder.join("pyvenv.cfg").is_file() {
        return Ok(folder.to_owned());
    }
    let versions = fs::read_dir(folder.join("lib"))
        .into_iter()
        .flatten()
        .flatten();
    let mut found: Vec<PathBuf> = versions
        .map(|version| version.path().join("site-packages"))
        .filter(|place| place.is_dir())
        .collect();
    found.sort();
    found.pop().ok_or_else(|| {
        let text = format!("{} has no lib/python*/site-packages", folder.display());
        Failure::failed(text).hint("it is marked as a virtual environment; make it again")
    })
}
