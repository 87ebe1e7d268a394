//! Terminal, and completions of the shell.

use std::{
    env,
    io::{self, IsTerminal},
    path::{Path, PathBuf},
};

use super::report::{Check, Status};
use crate::places;

/// Checks the terminal and the completions.
pub(super) fn all() -> [Check; 2] {
    [terminal(), completions()]
}

fn terminal() -> Check {
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"]
        .into_iter()
        .find_map(|name| env::var(name).ok().filter(|value| !value.is_empty()));
    let locale = locale.as_deref().unwrap_or("none");
    let place = match io::stdout().is_terminal() {
        true => {
            let term = env::var("TERM").unwrap_or_default();
            let width = comfy_table::Table::new().width();
            let width = width.map_or_else(String::new, |width| format!(", {width} columns"));
            format!("{term}{width}")
        }
        false => "output goes to a pipe or a file".to_owned(),
    };
    let text = format!("{place}; locale {locale}");
    let is_utf8 = locale
        .to_ascii_lowercase()
        .replace('-', "")
        .contains("utf8");
    match is_utf8 || locale == "none" {
        true => Check::new("terminal", Status::Ok, text),
        false => Check::new("terminal", Status::Note, text)
            .hint("tables and images are drawn in UTF-8; NO_COLOR=1 turns the lines off"),
    }
}

fn completions() -> Check {
    const NAME: &str = "completions";
    let shell = env::var("SHELL").unwrap_or_default();
    let shell = Path::new(&shell).file_name().unwrap_or_default();
    let shell = shell.to_string_lossy();
    let places = locations(&shell);
    if places.is_empty() {
        let text = match &*shell {
            "" => "the shell is not known".to_owned(),
            shell => format!("there are none for {shell}"),
        };
        return Check::new(NAME, Status::Note, text);
    }
    match places.iter().find(|place| place.is_file()) {
        Some(place) => {
            let text = format!("installed for {shell}: {}", place.display());
            Check::new(NAME, Status::Ok, text)
        }
        None => Check::new(NAME, Status::Note, format!("not installed for {shell}"))
            .hint(format!("ovms completions {shell} --install")),
    }
}

/// Returns where a shell that loads completions on demand looks for them.
fn locations(shell: &str) -> Vec<PathBuf> {
    let home = env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
    let data = places::data().unwrap_or_default();
    let configuration = places::configuration().unwrap_or_default();
    let (file, others): (&str, Vec<PathBuf>) = match shell {
        "bash" => (
            "bash-completion/completions/ovms",
            vec!["/etc/bash_completion.d/ovms".into()],
        ),
        "zsh" => {
            let vendor = "/usr/share/zsh/vendor-completions/_ovms".into();
            let own = [".zfunc/_ovms", ".zsh/completions/_ovms"].map(|file| home.join(file));
            (
                "zsh/site-functions/_ovms",
                own.into_iter().chain([vendor]).collect(),
            )
        }
        "fish" => {
            let own = configuration.join("fish/completions/ovms.fish");
            ("fish/vendor_completions.d/ovms.fish", vec![own])
        }
        _ => return Vec::new(),
    };
    let shared = [data, "/usr/local/share".into(), "/usr/share".into()];
    shared
        .iter()
        .map(|folder| folder.join(file))
        .chain(others)
        .collect()
}
