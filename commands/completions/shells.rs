//! Shells with completions: the script of each, and how it takes candidates.

use std::{env, ffi::OsString, io, path::Path};

use clap::Command;
use clap_complete::env::{Bash, Elvish, EnvCompleter, Fish, Powershell, Shells, Zsh};

use super::bash::BashLine;

/// Shells by name. Scripts of ours, beside that of Elvish, pass words without quotes on, and keep
/// values begun: behind `name=` comes no space.
pub(super) const SHELLS: Shells<'static> = Shells(&[
    &Scripted(&Bash, include_str!("../../completions/ovms.bash")),
    &Elvish,
    &Scripted(&Fish, include_str!("../../completions/ovms.fish")),
    &Scripted(&Powershell, include_str!("../../completions/ovms.ps1")),
    &Scripted(&Zsh, include_str!("../../completions/_ovms")),
]);

/// Shell with a script of ours.
struct Scripted(&'static dyn EnvCompleter, &'static str);

impl EnvCompleter for Scripted {
    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn is(&self, name: &str) -> bool {
        self.0.is(name)
    }

    fn write_registration(
        &self,
        _: &str,
        _: &str,
        _: &str,
        _: &str,
        script: &mut dyn io::Write,
    ) -> io::Result<()> {
        script.write_all(self.1.as_bytes())
    }

    fn write_complete(
        &self,
        command: &mut Command,
        mut words: Vec<OsString>,
        folder: Option<&Path>,
        answer: &mut dyn io::Write,
    ) -> io::Result<()> {
        if let Some(line) = BashLine::of_environment() {
            return line.write_complete(command, folder, answer);
        }
        // The word with the cursor is the last one, and an empty one may not have been passed.
        let at = env::var("_CLAP_COMPLETE_INDEX").ok();
        if let Some(at) = at.and_then(|at| at.parse::<usize>().ok()) {
            words.resize(at + 1, OsString::new());
        }
        self.0.write_complete(command, words, folder, answer)
    }
}
