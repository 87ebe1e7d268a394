//! Runs of the commands in a page of the manual.
//!
//! - Each line of a `console` block that begins with `$ ` is a command for `sh`. A `\` at the end of its line, or `> ` at
//!   the beginning of the next, continues it. They run in order, in one working folder for each page; folder and exported
//!   variables stay from one to the next. Each has to end with 0.
//! - The lines behind a command are what it says, on stdout and stderr together ([`output`]); without any, only
//!   the exit status counts.
//! - `ovms serve …` goes on in the background, and the next command waits until it is ready. Lines behind
//!   it stand in its log. It is ended, and has to end well, at the next one or at the end of the page.
//! - The ports 9000 and 8000 become free ones.
//! - A block whose fence has a file name behind the language is that file.
//!
//! [`page`] reads a page, [`runner`] runs it.

mod output;
mod page;
mod runner;

pub(crate) use output::{differs, is_same};
pub(crate) use page::{Command, Page, Step};
pub(crate) use runner::run;
