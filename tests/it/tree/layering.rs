//! Order of the layers, checked in the sources: imports point downward only, and each external
//! dependency has its folder.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use super::rooms::{Folder, ROOMS};

/// Modules of the library, lowest layer first. A module imports those of its own row and of the
/// rows above it here, never one further down.
const LAYERS: [&[&str]; 10] = [
    &[
        "auth",
        "budget",
        "byte_size",
        "diagnostic",
        "error",
        "order",
        "quota",
        "request",
        "servable",
        "shared_memory",
        "stamps",
        "task",
        "text",
        "https",
        "tls",
        "trace",
        "whole_file",
        "whole_lines",
        "proto",
        "tensor",
    ],
    &["metrics", "draw"],
    &["sequence", "store"],
    &["openvino", "custom_node", "python"],
    &["config"],
    &["model"],
    &["pipeline", "graph"],
    &["engine", "scaffold"],
    &["frontends", "server", "client"],
    &["fuzzing"],
];

/// Files that decide whose a sequence is, and for how long: clocks of servers may differ.
const SEQUENCES: [&str; 7] = [
    "src/store/",
    "src/sequence/",
    "src/model/keeper/",
    "src/model/cleaner.rs",
    "src/model/snapshot/",
    "src/engine/shared.rs",
    "src/engine/sequences.rs",
];

/// The store that one server has for itself, whose records outlive it.
const OF_ONE_SERVER: &str = "src/store/files/";

/// Names of the time of day.
const WALL_CLOCKS: [&str; 4] = ["SystemTime", "UNIX_EPOCH", "chrono", "jiff"];

/// Crates that only `commands/` may name.
const COMMAND_LINE: [&str; 6] = [
    "clap",
    "clap_complete",
    "console",
    "indicatif",
    "comfy_table",
    "annotate_snippets",
];

/// Folders that may have `unsafe` code.
const UNSAFE: [&str; 3] = ["src/openvino/", "src/custom_node/", "src/python/"];

/// Maximum number of lines of a file.
const MAX_LINES: usize = 700;

/// A source file without its comments.
#[derive(Clone)]
struct Source {
    /// Path below the project's folder.
    path: String,
    code: String,
    lines: usize,
}

impl Source {
    fn read(path: &Path) -> Self {
        let text = fs::read_to_string(path).unwrap();
        let root = Path::new(env!("WORKSPACE_ROOT"));
        Self {
            path: path.strip_prefix(root).unwrap().display().to_string(),
            lines: text.lines().count(),
            code: text
                .lines()
                .filter(|line| !line.trim_start().starts_with("//"))
                .map(|line| format!("{line}\n"))
                .collect(),
        }
    }

    /// Returns the names in the code that directly follow a text, as in `crate::name`; a list in
    /// braces yields each of its names.
    fn names_after(&self, text: &str) -> Vec<&str> {
        self.all_after(text).flat_map(names).collect()
    }

    /// Returns the last names of the paths that begin with a text.
    fn last_names_after(&self, text: &str) -> Vec<&str> {
        self.all_after(text).flat_map(last_names).collect()
    }

    /// Returns the code behind each place of a text that is no end of a longer name.
    fn all_after(&self, text: &str) -> impl Iterator<Item = &str> {
        self.code
            .match_indices(text)
            .filter(|(start, _)| {
                !self.code[..*start].ends_with(|c: char| c.is_alphanumeric() || c == '_')
            })
            .map(|(start, text)| &self.code[start + text.len()..])
    }

    /// Returns whether the code has a word.
    fn has_word(&self, word: &str) -> bool {
        self.code
            .split(|c: char| !c.is_alphanumeric() && c != '_')
            .any(|found| found == word)
    }
}

/// Returns the first name of each path in `name::…` or `{name::…, name, …}`.
fn names(code: &str) -> Vec<&str> {
    let word = |text: &str| text.find(|c: char| !c.is_alphanumeric() && c != '_');
    paths(code)
        .into_iter()
        .map(|path| path[..word(path).unwrap_or(path.len())].trim())
        .collect()
}

/// Returns the last name of each path, however deep the lists are that it stands in.
fn last_names(code: &str) -> Vec<&str> {
    let mut found = Vec::new();
    for path in paths(code) {
        let end = path.find([',', ';', '{', '}']).unwrap_or(path.len());
        if path[end..].starts_with('{') {
            found.extend(last_names(&path[end..]));
        } else {
            let name = path[..end].rsplit([':', ' ']).next();
            found.extend(name.map(str::trim));
        }
    }
    found
}

/// Returns the paths of a list in braces; of anything else, that itself, with what follows it.
fn paths(code: &str) -> Vec<&str> {
    let Some(list) = code.strip_prefix('{') else {
        return vec![code.trim_start()];
    };
    let mut found = Vec::new();
    let mut depth = 0;
    let mut start = 0;
    for (index, character) in list.char_indices() {
        match character {
            '{' => depth += 1,
            ',' if depth == 0 => {
                found.push(list[start..index].trim());
                start = index + 1;
            }
            '}' if depth == 0 => {
                found.push(list[start..index].trim());
                break;
            }
            '}' => depth -= 1,
            _ => {}
        }
    }
    found
}

/// Reads every source file below a folder of the project.
fn sources(folder: &str) -> Vec<Source> {
    let mut folders: Vec<PathBuf> = vec![Path::new(env!("WORKSPACE_ROOT")).join(folder)];
    let mut sources = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap().flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                sources.push(Source::read(&path));
            }
        }
    }
    assert!(!sources.is_empty());
    sources
}

fn layer(module: &str) -> Option<usize> {
    LAYERS.iter().position(|modules| modules.contains(&module))
}

/// Returns the module of the library that a file belongs to.
fn module(path: &str) -> &str {
    let below = path.strip_prefix("src/").unwrap();
    below.split(['/', '.']).next().unwrap()
}

/// Panics with one line per error.
fn none(errors: &[String]) {
    assert!(errors.is_empty(), "\n{}", errors.join("\n"));
}

#[test]
fn every_module_has_a_layer() {
    let errors: Vec<String> = sources("src")
        .iter()
        .map(|source| module(&source.path))
        .filter(|module| !["lib", "build"].contains(module) && layer(module).is_none())
        .map(|module| format!("src/{module} is in no row of LAYERS"))
        .collect();
    none(&errors);
}

#[test]
fn imports_point_downward() {
    let mut errors = Vec::new();
    for source in sources("src") {
        let own = module(&source.path);
        // Fuzz targets, which are no part of the program, share what they assert.
        let is_target = source.path.ends_with("/fuzz.rs");
        for name in source.names_after("crate::") {
            if is_target && name == "fuzzing" {
                continue;
            }
            if let (Some(own_layer), Some(other)) = (layer(own), layer(name))
                && other > own_layer
            {
                errors.push(format!(
                    "{} imports `{name}` from a higher layer",
                    source.path
                ));
            }
        }
    }
    none(&errors);
}

/// Modules of one row may import each other, but none of them itself by way of others.
#[test]
fn imports_of_a_row_form_no_cycle() {
    let mut imports: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for source in sources("src") {
        if source.path.contains("/tests") || source.path.ends_with("/fuzz.rs") {
            continue;
        }
        let own = module(&source.path);
        let code = source.code.split("#[cfg(test)]\nmod tests").next().unwrap();
        let source = Source {
            code: code.to_owned(),
            ..source.clone()
        };
        let names = source.names_after("crate::").into_iter();
        let of_row = names.filter(|name| *name != own && layer(name) == layer(own));
        let known = imports.entry(own.to_owned()).or_default();
        known.extend(of_row.map(str::to_owned));
    }
    // What imports nothing that is left is in no cycle.
    while let Some(free) = imports
        .iter()
        .find(|(_, others)| others.iter().all(|other| !imports.contains_key(other)))
    {
        let free = free.0.clone();
        imports.remove(&free);
    }
    let errors: Vec<String> = imports
        .iter()
        .map(|(module, others)| format!("`{module}` is in or above a cycle: {others:?}"))
        .collect();
    none(&errors);
}

#[test]
fn the_library_knows_no_command_line() {
    let mut errors = Vec::new();
    for source in sources("src") {
        for word in COMMAND_LINE.iter().filter(|word| source.has_word(word)) {
            errors.push(format!(
                "{} names `{word}`, which is for commands/",
                source.path
            ));
        }
    }
    none(&errors);
}

#[test]
fn the_runtime_is_named_in_one_folder() {
    let mut errors = Vec::new();
    for source in sources("src").into_iter().chain(sources("commands")) {
        if source.path.starts_with("src/openvino/") {
            continue;
        }
        // Our own module of that name is imported first, so that `openvino::x` is `crate`'s.
        let ours = source.names_after("crate::").contains(&"openvino")
            || source.names_after("ovms::").contains(&"openvino");
        let theirs = source.code.contains("use openvino")
            || source.code.contains(" ::openvino")
            || source.has_word("openvino_sys")
            || (source.code.contains("openvino::") && !ours);
        if theirs {
            errors.push(format!("{} names the openvino crate", source.path));
        }
    }
    none(&errors);
}

#[test]
fn sequences_know_no_time_of_day() {
    let all = sources("src");
    let of_sequences = |source: &&Source| {
        let is_in = |place: &&str| source.path.starts_with(place);
        SEQUENCES.iter().any(is_in) && !source.path.starts_with(OF_ONE_SERVER)
    };
    let mut errors: Vec<String> = SEQUENCES
        .iter()
        .filter(|place| !all.iter().any(|source| source.path.starts_with(**place)))
        .map(|place| format!("{place} is not there"))
        .collect();
    for source in all.iter().filter(of_sequences) {
        for word in WALL_CLOCKS.iter().filter(|word| source.has_word(word)) {
            errors.push(format!(
                "{} names `{word}`: the time of sequences is that of their store, or has passed since an `Instant`",
                source.path
            ));
        }
    }
    none(&errors);
}

#[test]
fn unsafe_code_has_its_folders() {
    let errors: Vec<String> = sources("src")
        .into_iter()
        .chain(sources("commands"))
        .filter(|source| source.has_word("unsafe"))
        .filter(|source| !UNSAFE.iter().any(|folder| source.path.starts_with(folder)))
        .map(|source| format!("{} has unsafe code", source.path))
        .collect();
    none(&errors);
}

/// Handlers that could reach the engine, or add a path, by themselves would not be asked for rights.
#[test]
fn rights_have_one_place() {
    let mut errors = Vec::new();
    for source in sources("src/frontends") {
        if source.path.starts_with("src/frontends/guard/") {
            continue;
        }
        let code = source.code.split("#[cfg(test)]\nmod tests").next().unwrap();
        let source = Source {
            code: code.to_owned(),
            ..source
        };
        if source.names_after("engine::").contains(&"Engine") {
            errors.push(format!(
                "{} reaches the engine without `Access`",
                source.path
            ));
        }
        if source.code.contains(".own()") {
            errors.push(format!("{} asks for no rights", source.path));
        }
        if source.code.contains("Router::new") {
            errors.push(format!("{} adds paths without `Paths`", source.path));
        }
    }
    none(&errors);
}

#[test]
fn files_can_be_read_at_one_go() {
    let errors: Vec<String> = ["src", "commands", "fuzz", "tests", "benches"]
        .into_iter()
        .flat_map(sources)
        .filter(|source| source.lines > MAX_LINES)
        .map(|source| {
            format!(
                "{} has {} lines; at most {MAX_LINES}",
                source.path, source.lines
            )
        })
        .collect();
    none(&errors);
}

#[test]
fn the_reader_of_imports_finds_them() {
    let source = Source {
        path: "src/model/x.rs".to_owned(),
        code: "use crate::{\n    error::{Error, Result},\n    task,\n};\nfn f() { crate::engine::x() }\n"
            .to_owned(),
        lines: 5,
    };
    assert_eq!(
        source.names_after("crate::"),
        ["error", "task", "", "engine"]
    );
    assert!(source.has_word("Result") && !source.has_word("Res"));
    let face = Source {
        code: "pub use serving::{\n    live::{Graph, Other as Limits},\n    session::Answer,\n    check,\n};\n".to_owned(),
        ..source
    };
    assert_eq!(
        face.last_names_after("serving::"),
        ["Graph", "Limits", "Answer", "check", ""]
    );
}

#[test]
fn imports_within_folders_point_downward() {
    let mut errors = Vec::new();
    for Folder {
        name: folder,
        rooms,
        known,
    } in ROOMS
    {
        let mut back = BTreeSet::new();
        let all = sources(&format!("src/{folder}"));
        let place = |room: &str| rooms.iter().position(|it| *it == room);
        let face = all
            .iter()
            .find(|it| it.path.ends_with(&format!("{folder}/mod.rs")));
        let face = face.expect("each folder has one");
        // Names that the folder passes on count as those of their rooms.
        let passed_on = |name: &str| {
            let has = |room: &&&str| {
                let names = face.last_names_after(&format!("{room}::"));
                names.contains(&name)
            };
            rooms.iter().find(has).copied()
        };
        for source in &all {
            let below = source.path.strip_prefix(&format!("src/{folder}/")).unwrap();
            let own = below.split(['/', '.']).next().unwrap();
            // Nor are fuzz targets part of the program: they share what they assert.
            let is_aside = below.contains("tests") || below.ends_with("/fuzz.rs");
            if own == "mod" || is_aside {
                continue;
            }
            let Some(own_place) = place(own) else {
                errors.push(format!("{} is in no row of ROOMS", source.path));
                continue;
            };
            let code = source.code.split("#[cfg(test)]\nmod tests").next().unwrap();
            let source = Source {
                path: source.path.clone(),
                code: code.to_owned(),
                lines: source.lines,
            };
            let depth = below.matches('/').count() + usize::from(!below.ends_with("/mod.rs"));
            let up = "super::".repeat(depth);
            let last = folder.rsplit('/').next().unwrap_or(folder);
            let from_top = source.names_after(&format!("{last}::"));
            let from_here = source.names_after(&up);
            for name in from_top.into_iter().chain(from_here) {
                let room = place(name).map(|_| name).or_else(|| passed_on(name));
                if let Some(room) = room
                    && place(room) > Some(own_place)
                {
                    if let Some(arrow) = known.iter().find(|arrow| **arrow == (own, room)) {
                        back.insert(arrow);
                        continue;
                    }
                    errors.push(format!("{} imports `{name}` of `{room}`", source.path));
                }
            }
        }
        // There are to be fewer of them.
        for (own, room) in known.iter().filter(|arrow| !back.contains(arrow)) {
            errors.push(format!(
                "`{own}` of src/{folder} does not import `{room}` any more: remove it from ROOMS"
            ));
        }
    }
    none(&errors);
}
