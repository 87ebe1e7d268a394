//! `ovms complete`: names for the word under the cursor, used by the completion scripts.
//!
//! Flags and files are in the scripts; this module knows names from servers and configuration
//! files. `words` finds the words of a line, `position` the argument with the cursor, `names` its
//! possible values, and `reply` writes them for the shell. On any error nothing is printed, and the
//! script continues with its own data.

mod names;
mod position;
mod reply;
mod words;

use std::{
    ffi::OsString,
    sync::mpsc,
    time::{Duration, Instant},
};

use clap::ValueEnum;
pub(crate) use names::OPTIONS;
use ovms::task;

use crate::{error::Failure, ui};

/// Time limit from the first line of `main` to the response, as a shell waits for it.
const LIMIT: Duration = Duration::from_millis(130);

/// Arguments of the hidden `ovms complete`.
#[derive(Debug, clap::Args)]
pub(crate) struct CompleteArgs {
    /// The shell that asks
    #[arg(value_enum)]
    shell: Shell,
    /// Which of the words the cursor is in, from 0; not for bash
    #[arg(long, value_name = "N", default_value_t = 0)]
    at: usize,
    /// How many milliseconds it may take; more for tests, whose machine may be busy
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u64).range(..=60_000))]
    within: Option<u64>,
    /// The words of the command line; for bash the line before the cursor, the line after it, and
    /// the characters that end a word
    #[arg(last = true)]
    words: Vec<OsString>,
}

/// Shells with scripts that ask for names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Shell {
    /// Wants each name as it is typed, and only what comes after the last character that ends a
    /// word
    Bash,
    /// Quotes by itself
    Zsh,
    /// Quotes by itself
    Fish,
    /// Wants each word as it is typed
    Powershell,
}

/// Prints the names, if they are found in time.
pub(crate) fn run(args: CompleteArgs, started: Instant) -> Result<(), Failure> {
    let limit = args.within.map_or(LIMIT, Duration::from_millis);
    let (sender, receiver) = mpsc::sync_channel(1);
    // The process ends without it: what it waits for may be a name server or a lost disk.
    let started_thread = task::thread("complete", move || {
        // Fails if nobody waits any more.
        let _ = sender.send(answer(args, started + limit));
    });
    let left = limit.saturating_sub(started.elapsed());
    match (started_thread, receiver.recv_timeout(left)) {
        (Ok(()), Ok(Some(answer))) => ui::print(answer),
        _ => Ok(()),
    }
}

/// Returns the printed text; `None` if there is nothing to offer.
fn answer(args: CompleteArgs, deadline: Instant) -> Option<String> {
    let (words, at, typed) = match args.shell {
        Shell::Bash => {
            let mut line = args.words.into_iter().map(|it| it.into_string().ok());
            let (before, after, breaks) = (line.next()??, line.next()??, line.next()??);
            let line = words::Line::read(&before, &after);
            let typed = reply::Typed::Bash {
                word: line.typed,
                quote: line.quote,
                breaks,
            };
            let words = line.words.into_iter().map(OsString::from).collect();
            (words, line.at, typed)
        }
        Shell::Zsh | Shell::Fish => (args.words, args.at, reply::Typed::Plain),
        Shell::Powershell => (args.words, args.at, reply::Typed::Powershell),
    };
    let position = position::find(words, at)?;
    let names = names::find(&position, deadline)?;
    reply::write(&position, names, &typed)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    #[test]
    fn a_shell_waits_for_less_than_a_fifth_of_a_second() {
        assert!(super::LIMIT <= Duration::from_millis(150));
    }
}
