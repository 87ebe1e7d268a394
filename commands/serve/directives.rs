//! Actions on model folders and the configuration file instead of serving:
//! `--list-models`, `--print-config`, `--add-to-config`, `--remove-from-config`.

use std::{
    borrow::Cow,
    fs,
    path::{Path, PathBuf},
};

use ovms::{
    config::{self, CheckDepth, Defaults, EditError, Flags, ModelEntry},
    diagnostic::Diagnostic,
    model::repository,
    openvino::MAX_NIREQ,
};
use serde_json::{Value, json};

use super::{ServeArgs, printed};
use crate::{
    error::Failure,
    places::{folder_of, has_parent, resolved},
    ui::{self, OutputFormat},
    written_files,
};

/// Environment variable in place of `--model-repository-path`.
const REPOSITORY: &str = "OVMS_MODEL_REPOSITORY_PATH";

/// Usage of `--add-to-config`.
const ADD: [&str; 2] = [
    "--add_to_config --model_name <model_name> --model_repository_path <repo_path> --config_path \
     <config_path>",
    "--add_to_config --model_name <model_name> --model_path <model_path> --config_path <config_path>",
];

/// Usage of `--remove-from-config`.
const REMOVE: &str = "--remove_from_config --model_name <model_name> --config_path <config_path>";

/// Maximum depth of the search for models below the repository.
const MAX_DEPTH: usize = 8;

/// Runs the requested action; `None` if there is none.
pub(super) fn run(args: &ServeArgs) -> Option<Result<(), Failure>> {
    type Directive = fn(&ServeArgs) -> Result<(), Failure>;
    let flags = &args.flags;
    let asked: [(&str, bool, Option<Directive>); 5] = [
        ("list_models", flags.list_models, Some(list)),
        ("print_config", flags.print_config, Some(printed::run)),
        ("add_to_config", flags.add_to_config, Some(add)),
        ("remove_from_config", flags.remove_from_config, Some(remove)),
        // It takes the flags of a server, and begins as one.
        ("check", flags.check != CheckDepth::Off, None),
    ];
    let mut asked = asked.iter().filter(|(_, given, _)| *given);
    let (first, _, directive) = asked.next()?;
    if let Some((second, ..)) = asked.next() {
        let text = format!("--{first} and --{second} are given; expected one of them");
        return Some(Err(Failure::usage(text)));
    }
    directive.map(|directive| directive(args))
}

/// Returns what to write in place of a path behind the flag of a directive, which takes none.
pub(crate) fn path_behind(flag: &str, given: &str) -> Option<String> {
    let path = Path::new(given);
    let (means, path) = match flag {
        "add-to-config" if is_servable(path) || repository::files(path).is_ok() => {
            ("--model-path", path.to_owned())
        }
        "add-to-config" | "remove-from-config" if path.is_dir() => {
            ("--config-path", path.join("config.json"))
        }
        "add-to-config" | "remove-from-config" => ("--config-path", path.to_owned()),
        "list-models" => ("--model-repository-path", path.to_owned()),
        _ => return None,
    };
    let path = ui::shell_word(&path.display().to_string());
    Some(format!(
        "`--{flag}` takes no path: write `--{flag} {means} {path}`"
    ))
}

/// Prints the names of the models below the repository, one a line.
fn list(args: &ServeArgs) -> Result<(), Failure> {
    let Some(root) = repository_path(&args.flags) else {
        return Err(Failure::usage_verbatim(
            "Use --list_models with --model_repository_path",
        ));
    };
    // A path through `..` is not accepted further down.
    let absolute = root.canonicalize();
    let absolute = absolute
        .and_then(|absolute| fs::read_dir(&absolute).map(|_| absolute))
        .map_err(|error| Failure::cannot("read the model repository", &root, &error))?;
    let mut names = Vec::new();
    walk(&absolute, &absolute, MAX_DEPTH, &mut names);
    names.sort();
    if args.output == OutputFormat::Json {
        let path = |name: &String| absolute.join(name).display().to_string();
        let models = names
            .iter()
            .map(|name| json!({ "name": name, "path": path(name) }));
        let models: Vec<_> = models.collect();
        let repository = absolute.display().to_string();
        return ui::print_json(&json!({ "repository": repository, "models": models }));
    }
    let lines: String = names.iter().map(|name| format!("{name}\n")).collect();
    ui::print(lines)
}

/// Finds models and graphs in the subfolders of a folder.
fn walk(root: &Path, folder: &Path, depth: usize, names: &mut Vec<String>) {
    let Ok(entries) = fs::read_dir(folder) else {
        return;
    };
    for entry in entries.flatten() {
        let path = entry.path();
        if !path.is_dir() {
            continue;
        }
        if is_servable(&path) {
            if let Ok(name) = path.strip_prefix(root) {
                names.push(name.to_string_lossy().into_owned());
            }
        } else if depth > 1 {
            walk(root, &path, depth - 1, names);
        }
    }
}

/// Returns whether a folder holds a graph, or a version of a model.
fn is_servable(folder: &Path) -> bool {
    let graph = |folder: &Path| folder.join("graph.pbtxt").is_file();
    let versions = repository::versions(folder).unwrap_or_default();
    graph(folder)
        || versions
            .iter()
            .any(|(_, version)| graph(version) || repository::files(version).is_ok())
}

/// Adds a model to the file; creates it if it is missing.
fn add(args: &ServeArgs) -> Result<(), Failure> {
    let path = config_path(args)?;
    let name = model_name(args)?;
    let mut is_rewritten = false;
    let base_path = match (&args.flags.model_path, repository_path(&args.flags)) {
        // Relative to the file, as all paths in it.
        (Some(given), _) => {
            let base_path = without_parents(&path, given);
            is_rewritten = matches!(base_path, Cow::Owned(_));
            base_path.into_owned()
        }
        // Relative to where we are.
        (None, Some(repository)) => match resolved(&repository) {
            Ok(whole) if !is_remote(&repository) => whole.join(name),
            _ => repository.join(name),
        },
        (None, None) => {
            let text = "Set model_name either with model_path or model_repository_path with \
                        add_to_config";
            return Err(Failure::usage_verbatim(format!("{text}\n{}", usage(&ADD))));
        }
    };
    let base_path = base_path.to_str().ok_or_else(|| {
        let text = format!("{} is not UTF-8, which JSON needs", base_path.display());
        Failure::failed(text).hint("rename the file or folder, or link to it by another name")
    })?;
    let settings = given_settings(&args.flags)?;
    let content = written_files::read_if_there(&path).map_err(|error| unreadable(&path, &error))?;
    let edited = config::add_model(content.as_deref(), (name, base_path), &settings)
        .map_err(|error| refused(&path, &error))?;
    let present = content
        .as_deref()
        .map(|it| config::model_settings(it, name));
    let present = present
        .transpose()
        .map_err(|error| refused(&path, &error))?;
    check_settings(content.as_deref(), &edited, &path, name)?;
    let present = present.flatten();
    if is_rewritten && present.is_none() {
        ui::warn(&format!(
            "note: the path is written as {base_path}, since the server does not accept paths through `..`"
        ));
    }
    if !base_path.contains("://") {
        note_missing(&path, Path::new(base_path));
    }
    if let Some(settings) = present {
        return done(args, &path, name, &Change::Unchanged { settings });
    }
    written_files::write(&path, &edited, true)?;
    done(args, &path, name, &Change::Added)
}

/// Returns whether a path is the address of a cloud storage.
fn is_remote(path: &Path) -> bool {
    path.to_string_lossy().contains("://")
}

/// Returns the path of a model as an absolute one if it goes through `..`, which the server does not accept.
fn without_parents<'a>(file: &Path, given: &'a Path) -> Cow<'a, Path> {
    if is_remote(given) || !has_parent(given) {
        return given.into();
    }
    let whole = folder_of(file).join(given);
    resolved(&whole).unwrap_or(whole).into()
}

/// Notes that nothing exists at the path of a model, which may come later.
fn note_missing(file: &Path, base_path: &Path) {
    let folder = file.parent().unwrap_or(Path::new(""));
    let found = folder.join(base_path);
    let found = std::path::absolute(&found).unwrap_or(found);
    if found.exists() {
        return;
    }
    let relative = match base_path.is_relative() {
        true => "; a relative path is relative to the configuration file",
        false => "",
    };
    let found = found.display();
    ui::warn(&format!("note: there is no folder {found}{relative}"));
}

/// Removes a model from the file.
fn remove(args: &ServeArgs) -> Result<(), Failure> {
    let path = config_path(args)?;
    let name = model_name(args)?;
    let model_path = args.flags.model_path.as_ref().map(|_| "model_path");
    let settings = given_settings(&args.flags)?;
    let others = model_path
        .into_iter()
        .chain(settings.iter().map(|(key, _)| *key));
    let others: String = others.map(|key| format!("{key}, ")).collect();
    if !others.is_empty() {
        return Err(Failure::usage_verbatim(format!(
            "Removing models from the configuration file, allows passing only model_name parameter. \
             Invalid parameters passed: {others}"
        )));
    }
    let content = fs::read(&path).map_err(|error| unreadable(&path, &error))?;
    let edited = config::remove_model(&content, name).map_err(|error| refused(&path, &error))?;
    written_files::write(&path, &edited, true)?;
    done(args, &path, name, &Change::Removed)
}

/// Change of a model in the file.
enum Change {
    Added,
    /// The model is there already, with these settings.
    Unchanged {
        settings: Vec<String>,
    },
    Removed,
}

/// Reports the change of a model in the file.
fn done(args: &ServeArgs, path: &Path, name: &str, change: &Change) -> Result<(), Failure> {
    let path = path.display().to_string();
    let (word, text) = match change {
        Change::Added => ("added", format!("Added model `{name}` to {path}.")),
        Change::Unchanged { settings } => {
            let kept = match &settings[..] {
                [] => String::new(),
                keys => format!(", and its settings stay: {}", keys.join(", ")),
            };
            let text = format!("Model `{name}` is in {path} already; nothing was changed{kept}.");
            ("unchanged", text)
        }
        Change::Removed => ("removed", format!("Removed model `{name}` from {path}.")),
    };
    if args.output == OutputFormat::Json {
        return ui::print_json(&json!({ "file": path, "model": name, "done": word }));
    }
    ui::note(&text);
    Ok(())
}

/// Returns the model repository of the flags or the environment.
pub(super) fn repository_path(flags: &Flags) -> Option<PathBuf> {
    let given = flags.model_repository_path.clone();
    let variable = || std::env::var_os(REPOSITORY).filter(|path| !path.is_empty());
    given.or_else(|| variable().map(PathBuf::from))
}

fn config_path(args: &ServeArgs) -> Result<PathBuf, Failure> {
    let usual = || Some(PathBuf::from(std::env::var_os(REPOSITORY)?).join("config.json"));
    let given = args.flags.config_path.clone();
    given.or_else(usual).ok_or_else(|| {
        Failure::usage_verbatim("Set config_path with add_to_config/remove_from_config")
    })
}

fn model_name(args: &ServeArgs) -> Result<&str, Failure> {
    args.flags.model_name.as_deref().ok_or_else(|| {
        let text = "Set model_name with add_to_config/remove_from_config";
        let usage = usage(&[ADD[0], ADD[1], REMOVE]);
        Failure::usage_verbatim(format!("{text}\n{usage}"))
    })
}

/// Returns the usage of a directive, in the format of the reference.
fn usage(lines: &[&str]) -> String {
    let lines: String = lines
        .iter()
        .map(|line| format!("\n  ovms {line}"))
        .collect();
    format!("Usage: {lines}")
}

fn unreadable(path: &Path, error: &std::io::Error) -> Failure {
    Failure::cannot("read the configuration file", path, error)
}

fn refused(path: &Path, error: &EditError) -> Failure {
    let path = path.display();
    let text = format!("cannot edit the configuration file {path}");
    let failure = Failure::failed(text).caused_by(error);
    match error {
        EditError::Unknown { name, known } => {
            failure.hint_nearest(name, known.iter().map(String::as_str))
        }
        EditError::Occupied(_) => failure.hint("remove it first with --remove-from-config"),
        EditError::Syntax(_) | EditError::NoList => {
            failure.hint("`ovms serve --check --config-path FILE` shows what is wrong with it")
        }
    }
}

/// Key and value of a setting.
type Setting = (&'static str, Value);

/// Collects the settings of a model from the flags, by key of its entry.
pub(super) fn given_settings(flags: &Flags) -> Result<Vec<Setting>, Failure> {
    let given = flags.given().into_iter();
    let given = given.filter(|(flag, _)| flag.is_key());
    given
        .map(|(flag, value)| Ok((flag.name, in_file(flag.name, value)?)))
        .collect()
}

/// Returns a setting in the form of the file, where a text with an object is that object.
fn in_file(key: &str, value: Value) -> Result<Value, Failure> {
    let Some(text) = value.as_str() else {
        return Ok(value);
    };
    let object = serde_json::from_str(text).ok().filter(Value::is_object);
    match key {
        "model_version_policy" | "plugin_config" => object.ok_or_else(|| {
            Failure::usage_verbatim(format!(
                "error parsing options - --{key}: found `{text}`; expected a JSON object"
            ))
        }),
        // One for each tensor, or a text.
        "shape" | "layout" | "dynamic_batching" => Ok(object.unwrap_or(value)),
        _ => Ok(value),
    }
}

/// Error of more infer requests than a server loads a model with, in its words.
#[derive(Debug, thiserror::Error)]
#[error("Nireq parameter too high - Exceeded allowed nireq value: {0}; at most {MAX_NIREQ}")]
struct NireqTooHigh(u32);

/// Returns why the server rejects an entry, whatever the model and the devices are.
pub(super) fn refusal(entry: &ModelEntry) -> Option<Box<dyn std::error::Error>> {
    match entry {
        ModelEntry::Refused(entry) => Some(Box::new(entry.reason.clone())),
        ModelEntry::Model(model) if model.load.nireq > MAX_NIREQ => {
            Some(Box::new(NireqTooHigh(model.load.nireq)))
        }
        ModelEntry::Model(_) => None,
    }
}

/// Rejects settings that the server would reject, and warns of those that it would ignore.
fn check_settings(
    before: Option<&[u8]>,
    after: &str,
    path: &Path,
    name: &str,
) -> Result<(), Failure> {
    let parse = |content: &[u8]| config::parse(content, path, &Defaults::default());
    let refused = |error: &dyn std::error::Error| {
        let text = format!("the settings of model `{name}` are refused");
        Err(Failure::usage(text).caused_by(error))
    };
    match parse(after.as_bytes()) {
        Ok(config) => {
            let mut entries = config.models.iter().filter(|entry| entry.name() == name);
            if let Some(reason) = entries.find_map(refusal) {
                return refused(&*reason);
            }
            let known = before.and_then(|before| parse(before).ok());
            let known = known.map(|known| known.warnings).unwrap_or_default();
            let place = |it: &Diagnostic| it.place.as_ref().map(|place| place.path.clone());
            let known: Vec<_> = known.iter().map(place).collect();
            let new = config
                .warnings
                .iter()
                .filter(|it| !known.contains(&place(it)));
            new.for_each(|it| ui::warn(&format!("warning: {}", it.message)));
            Ok(())
        }
        // It was no better before.
        Err(_) if before.is_some_and(|before| parse(before).is_err()) => Ok(()),
        Err(error) => refused(&error),
    }
}
