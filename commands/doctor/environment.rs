//! Surroundings: environment variables (values if they hold no secret, names alone otherwise), folders, the
//! terminal, and completions of the shell.

use std::{
    env, fs,
    io::{self, IsTerminal},
    path::{Path, PathBuf},
};

use super::{Check, Status};
use crate::{places, ui::listed};

/// Variables shown with their values.
const REPORTED: &str = "
    OPENVINO_INSTALL_DIR VIRTUAL_ENV CONDA_PREFIX LD_LIBRARY_PATH PYTHONHOME PYTHONPATH
    OVMS_URL OVMS_API OVMS_CONFIG OVMS_TIMEOUT OVMS_MODEL_CACHE OVMS_MODEL_REPOSITORY_PATH
    OVMS_GRAPH_QUEUE_MAX_SIZE GRPC_SERVERS XDG_CACHE_HOME XDG_CONFIG_HOME XDG_DATA_HOME TMPDIR
    OMP_NUM_THREADS NO_PROXY no_proxy NO_COLOR SSL_CERT_FILE SSL_CERT_DIR TERM SHELL COLUMNS
";

/// Variables with possibly secret values.
const HIDDEN: &str = "API_KEY OVMS_API_KEY OVMS_HEADER HTTP_PROXY http_proxy HTTPS_PROXY https_proxy ALL_PROXY all_proxy";

/// Prefixes of the variables of each cloud.
const CLOUDS: [(&str, &[&str]); 3] = [
    ("S3", &["AWS_", "S3_"]),
    (
        "Google Cloud",
        &["GOOGLE_", "STORAGE_EMULATOR_HOST", "CLOUD_STORAGE_"],
    ),
    ("Azure", &["AZURE_"]),
];

/// Checks the credentials of clouds, and all other variables.
pub(super) fn all() -> [Check; 2] {
    let set = |name: &&str| env::var_os(name).is_some_and(|value| !value.is_empty());
    let reported = REPORTED.split_whitespace().filter(set).map(|name| {
        let value = env::var(name).unwrap_or_else(|_| "(no text)".to_owned());
        format!("{name}={}", harmless(&value))
    });
    let hidden = HIDDEN.split_whitespace().filter(set);
    let hidden = hidden.map(|name| format!("{name} (set, not shown)"));
    let variables: Vec<String> = reported.chain(hidden).collect();
    let variables = match variables.split_first() {
        None => Check::new("variables", Status::Note, "none that matter are set"),
        Some((first, rest)) => {
            let check = Check::new("variables", Status::Note, first.clone());
            rest.iter().cloned().fold(check, Check::detail)
        }
    };
    let names = env::vars_os().filter(|(_, value)| !value.is_empty());
    let names = names.filter_map(|(name, _)| name.into_string().ok());
    let mut names: Vec<String> = names.collect();
    names.sort();
    [clouds(&names), variables]
}

/// Lists the set variables of each cloud.
fn clouds(names: &[String]) -> Check {
    let found = CLOUDS.iter().filter_map(|(cloud, prefixes)| {
        let is_one = |name: &&String| prefixes.iter().any(|prefix| name.starts_with(prefix));
        let names: Vec<&String> = names.iter().filter(is_one).collect();
        (!names.is_empty()).then(|| format!("{cloud}: {}", listed(&names)))
    });
    let found: Vec<String> = found.collect();
    let text = match found.is_empty() {
        true => "no variables of S3, Google Cloud or Azure are set".to_owned(),
        false => format!("variables are set (values not shown): {}", found.join("; ")),
    };
    Check::new("clouds", Status::Note, text)
}

/// Returns a value, unless it may contain a password.
fn harmless(value: &str) -> &str {
    match value.contains('@') {
        true => "(set, not shown)",
        false => value,
    }
}

/// Default folder of compiled models, used if it exists.
const COMPILED: &str = "/opt/cache";

/// Checks the folders for compiled models, for downloads, and for temporary files.
pub(super) fn check() -> Check {
    let compiled = Path::new(COMPILED);
    let downloads = places::path("OVMS_MODEL_CACHE");
    let downloads = downloads.or_else(|| Some(places::cache()?.join("ovms/models")));
    let tried = |folder: PathBuf| (try_to_write(&folder), folder);
    let temporary = env::temp_dir();
    let folders = [
        (
            "compiled",
            compiled.is_dir().then(|| tried(compiled.to_owned())),
        ),
        ("downloads", downloads.map(tried)),
        ("temporary", Some((write_in(&temporary), temporary))),
    ];
    let (mut writable, mut errors) = (Vec::new(), Vec::new());
    for (what, folder) in folders {
        let Some((tried, folder)) = folder else {
            continue;
        };
        let shown = format!("{} ({what})", folder.display());
        match tried {
            Ok(()) => writable.push(shown),
            Err(error) => errors.push(format!("{shown}: {error}")),
        }
    }
    let can = format!("can write to {}", listed(&writable));
    if errors.is_empty() {
        return Check::new("folders", Status::Ok, can);
    }
    let text = format!("cannot write to {}", listed(&errors));
    let check = Check::new("folders", Status::Warn, text).hint(
        "--cache-dir names another folder for compiled models, OVMS_MODEL_CACHE one for \
         downloads, and TMPDIR one for temporary files",
    );
    match writable.is_empty() {
        true => check,
        false => check.detail(can),
    }
}

/// Writes a file and removes it, in the folder or its nearest existing ancestor: one that is missing will be made.
fn try_to_write(folder: &Path) -> io::Result<()> {
    let there = folder.ancestors().find(|folder| folder.exists());
    write_in(there.unwrap_or(folder))
}

/// Writes a file and removes it, in the folder itself.
fn write_in(folder: &Path) -> io::Result<()> {
    if !fs::metadata(folder)?.is_dir() {
        return Err(io::ErrorKind::NotADirectory.into());
    }
    tempfile::tempfile_in(folder).map(drop)
}

/// Checks the terminal and the completions.
pub(super) fn shell() -> [Check; 2] {
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
    let shell = match shell.to_string_lossy() {
        program if program == "pwsh" => "powershell".into(),
        shell => shell,
    };
    let places = locations(&shell);
    if places.is_empty() {
        let text = match &*shell {
            "" => "unknown shell".to_owned(),
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

/// Returns where a shell looks for completions, or its start-up file for those that were installed.
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
        "powershell" => return vec![configuration.join("powershell/ovms.ps1")],
        "elvish" => return vec![configuration.join("elvish/lib/ovms-completions.elv")],
        _ => return Vec::new(),
    };
    let shared = [data, "/usr/local/share".into(), "/usr/share".into()];
    shared
        .iter()
        .map(|folder| folder.join(file))
        .chain(others)
        .collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::{clouds, harmless, try_to_write, write_in};

    #[test]
    fn values_with_a_password_are_not_shown() {
        assert_eq!(harmless("http://ann:secret@host"), "(set, not shown)");
        assert_eq!(harmless("localhost:9000"), "localhost:9000");
    }

    #[test]
    fn clouds_are_reported_by_the_names_of_their_variables() {
        let names = ["AWS_REGION", "AZURE_TENANT_ID", "AWS_PROFILE", "HOME"];
        let names: Vec<String> = names.map(str::to_owned).into();
        let check = format!("{:?}", clouds(&names));
        let text = "S3: AWS_REGION and AWS_PROFILE; Azure: AZURE_TENANT_ID";
        assert!(check.contains(text), "{check}");
    }

    #[test]
    fn a_folder_that_is_not_there_is_as_good_as_the_one_above_it() {
        let root = tempfile::tempdir().unwrap();
        assert!(try_to_write(&root.path().join("a/b")).is_ok());
        assert_eq!(fs::read_dir(root.path()).unwrap().count(), 0);
        let file = root.path().join("file");
        fs::write(&file, "").unwrap();
        assert!(try_to_write(&file.join("below")).is_err());
        // Nobody makes the one for temporary files.
        assert!(write_in(root.path()).is_ok());
        let missing = write_in(&root.path().join("a")).unwrap_err();
        assert_eq!(missing.kind(), std::io::ErrorKind::NotFound);
    }
}
