//! Completions that need no server, and the scripts that ask for them, which are installed in the
//! folders of the shells.

use std::{fs, os::unix::fs::PermissionsExt, path::Path};

use crate::support::{
    cli::{self, Run, ovms},
    repository,
};

/// Completes the last word of a line as fish asks for it.
fn completed(folder: &Path, line: &[&str]) -> Vec<String> {
    let mut command = cli::command();
    command.current_dir(folder).env("COMPLETE", "fish");
    let run = cli::run(command.args(["--", "ovms"]).args(line));
    assert_eq!((run.code, run.stderr.as_str()), (Some(0), ""), "{line:?}");
    let text = run.text();
    let words = text.lines().filter_map(|line| line.split('\t').next());
    words.map(str::to_owned).collect()
}

#[test]
fn commands_flags_values_and_files_are_completed() {
    let folder = repository::folder();
    fs::create_dir(folder.path().join("folder")).unwrap();
    fs::write(folder.path().join("file"), "").unwrap();
    let completed = |line: &[&str]| completed(folder.path(), line).join(" ");
    for (line, expected) in [
        // Flags come where nothing else is there.
        (
            &[""][..],
            "serve infer pipeline graph setup doctor completions man help",
        ),
        (&["pipeline", "show", ""], "file folder/"),
        (&["infer", "m", "--zer"], "--zeros"),
        (&["--rest_p"], "--rest_port"),
        (&["--qui"], "--quiet"),
        (&["-q", "gr"], "graph"),
        (&["completions", ""], "bash elvish fish powershell zsh"),
        (&["man", "in"], "infer"),
        (&["serve", "--target_device", "G"], "GPU"),
        (&["serve", "--config_path", "f"], "file folder/"),
        (&["serve", "--cache_dir", "f"], "folder/"),
        (&["serve", "--log_format", ""], "text json"),
        (&["infer", "m", "-i", "x=@fi"], "x=@file"),
        (&["infer", "m", "-i", "@fi"], "@file"),
        (&["infer", "m", "--top", ""], ""),
    ] {
        assert_eq!(completed(line), expected, "{line:?}");
    }
    let flags = completed(&["infer", "m", ""]);
    assert!(
        flags.starts_with("--") && flags.contains(" --help"),
        "{flags}"
    );
}

#[test]
fn only_shells_are_answered() {
    for name in ["", "0", "1", "tcsh"] {
        let run = cli::run(cli::command().env("COMPLETE", name).arg("--version"));
        assert!(run.text().starts_with("ovms "), "{name}: {}", run.text());
    }
}

#[test]
fn packages_have_the_scripts() {
    for (shell, file) in [
        ("bash", "ovms.bash"),
        ("zsh", "_ovms"),
        ("fish", "ovms.fish"),
        ("powershell", "ovms.ps1"),
    ] {
        let path = format!("{}/completions/{file}", env!("WORKSPACE_ROOT"));
        assert_eq!(
            ovms(["completions", shell]).text(),
            fs::read_to_string(path).unwrap()
        );
    }
}

/// Installs for a user with this home folder.
fn install(home: &Path, shell: &str) -> Run {
    let mut command = cli::bare(home);
    command.env_remove("XDG_CONFIG_HOME").env_remove("FPATH");
    cli::run(command.args(["completions", shell, "--install"]))
}

#[test]
fn each_shell_has_its_place_and_installing_again_changes_nothing() {
    let home = repository::folder();
    for (shell, place) in [
        ("bash", ".local/share/bash-completion/completions/ovms"),
        ("zsh", ".local/share/zsh/site-functions/_ovms"),
        ("fish", ".config/fish/completions/ovms.fish"),
        ("powershell", ".config/powershell/ovms.ps1"),
        ("elvish", ".config/elvish/lib/ovms-completions.elv"),
    ] {
        let path = home.path().join(place);
        let first = install(home.path(), shell);
        assert_eq!(first.code, Some(0), "{}", first.stderr);
        assert_eq!(first.text(), format!("installed: {}\n", path.display()));
        let script = fs::read_to_string(&path).unwrap();
        assert_eq!(script, ovms(["completions", shell]).text());
        assert!(first.stderr.starts_with("next: "), "{}", first.stderr);
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o700, 0o600, "{shell}");

        let again = install(home.path(), shell);
        assert_eq!(again.text(), format!("up to date: {}\n", path.display()));
        assert_eq!(again.stderr, first.stderr);
        fs::write(&path, "of an older version").unwrap();
        let newer = install(home.path(), shell);
        assert_eq!(newer.text(), format!("updated: {}\n", path.display()));
        assert_eq!(fs::read_to_string(&path).unwrap(), script);
        // Nothing is left beside it.
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
    }
    let mut there: Vec<_> = fs::read_dir(home.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    there.sort();
    assert_eq!(there, [".config", ".local"]);
}

#[test]
fn zsh_is_reported_what_it_needs() {
    let home = repository::folder();
    let hidden = |run: Run| run.stderr.replace(home.path().to_str().unwrap(), "<home>");
    insta::assert_snapshot!(hidden(install(home.path(), "zsh")), @"
    next: see that ~/.zshrc has these lines, in this order, and start a new shell:
      fpath=(<home>/.local/share/zsh/site-functions $fpath)
      autoload -Uz compinit && compinit
    Oh My Zsh and the like call compinit themselves: there the first line alone goes
    before the one that loads them.
    ");
    let folder = home.path().join(".local/share/zsh/site-functions");
    let mut command = cli::bare(home.path());
    command.env("FPATH", format!("/usr/share/zsh:{}", folder.display()));
    let known = cli::run(command.args(["completions", "zsh", "--install"]));
    insta::assert_snapshot!(hidden(known), @"next: start a new shell; if that does not complete, run: rm -f ~/.zcompdump*; compinit");
}

#[test]
fn the_shell_is_that_of_the_environment_unless_it_is_named() {
    let home = repository::folder();
    let with = |shell: Option<&str>| {
        let mut command = cli::bare(home.path());
        match shell {
            Some(shell) => command.env("SHELL", shell),
            None => command.env_remove("SHELL"),
        };
        cli::run(command.arg("completions"))
    };
    let fish = ovms(["completions", "fish"]).text();
    assert_eq!(with(Some("/usr/bin/fish")).text(), fish);
    insta::assert_snapshot!(with(Some("/bin/tcsh")).failure(), @"
    exit 64
    error: there are no completions for /bin/tcsh, which SHELL names
    hint: name one: ovms completions bash, zsh, fish, powershell or elvish
    ");
    insta::assert_snapshot!(with(None).failure(), @"
    exit 64
    error: no shell is named, and the variable SHELL is not set
    hint: name one: ovms completions bash, zsh, fish, powershell or elvish
    ");
}

#[test]
fn what_cannot_be_installed_says_why() {
    let home = repository::folder();
    let mut command = cli::bare(home.path());
    command.env_remove("XDG_CONFIG_HOME").env_remove("HOME");
    let homeless = cli::run(command.args(["completions", "fish", "--install"]));
    insta::assert_snapshot!(homeless.failure(), @"
    exit 1
    error: there is no home folder to install into
    hint: set HOME or XDG_CONFIG_HOME, or send the script to a file: ovms completions SHELL > FILE
    ");
    // A file where a folder should be: root may write to any folder.
    fs::write(home.path().join(".config"), "").unwrap();
    let run = install(home.path(), "fish");
    let failure = run
        .failure()
        .replace(home.path().to_str().unwrap(), "<home>");
    insta::assert_snapshot!(failure, @"
    exit 1
    error: cannot write <home>/.config/fish/completions/ovms.fish
      caused by: Not a directory (os error 20)
    hint: may you write to that folder? The script goes to any file with: ovms completions fish > FILE
    ");
}
