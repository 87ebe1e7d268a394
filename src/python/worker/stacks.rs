//! Stacks of the threads of a worker when it died, or before it was killed.
//!
//! Python's `faulthandler` writes them into memory that both processes have, at a fatal signal and at [`ASK`]: it takes
//! no lock and no turn of the interpreter, and what a handler prints goes another way.

use std::{
    fmt::{self, Write as _},
    io,
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::ffi::OsStrExt as _,
    },
    path::{Path, PathBuf},
    time::Duration,
};

use rustix::{
    fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create, tell},
    process::Signal,
};

/// The signal at which a worker writes them. Nothing else uses it.
pub(super) const ASK: Signal = Signal::STKFLT;

/// Time that a worker has to write them.
const PATIENCE: Duration = Duration::from_millis(200);

/// Time between two looks.
const PAUSE: Duration = Duration::from_millis(5);

/// Maximum number of bytes that a worker can write; it writes 100 frames of 100 threads at most.
const MAX_BYTES: u64 = 512 << 10;

/// Maximum number of lines in the log.
const MAX_LINES: usize = 40;

/// Maximum number of places of a handler that are named.
const MAX_PLACES: usize = 3;

/// The end of what is written: the outermost frame of the oldest thread, which is the last one.
const END: &[u8] = b" in _run_module_as_main\n";

/// Memory that a worker writes its stacks to.
pub(super) struct Stacks(OwnedFd);

impl Stacks {
    /// Makes it.
    ///
    /// # Errors
    ///
    /// Fails if the system has none.
    pub(super) fn new() -> io::Result<Self> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let file = memfd_create("ovms-python-stacks", flags)?;
        ftruncate(&file, MAX_BYTES)?;
        // Memory is taken for what is written alone, and there is no more of it than this.
        fcntl_add_seals(&file, SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL)?;
        Ok(Self(file))
    }

    /// Forgets what was written, for what comes next.
    pub(super) fn clear(&self) {
        // It fails for no file in memory.
        let _ = rustix::fs::seek(&self.0, rustix::fs::SeekFrom::Start(0));
    }

    /// Waits until a worker that was asked has written them, for a short time.
    pub(super) async fn written(&self) {
        let written = async {
            while !self.bytes().ends_with(END) {
                tokio::time::sleep(PAUSE).await;
            }
        };
        // One that does not is killed without.
        let _ = tokio::time::timeout(PATIENCE, written).await;
    }

    /// Returns what was written. Both processes have one position in it.
    fn bytes(&self) -> Vec<u8> {
        let length = tell(&self.0).unwrap_or_default().min(MAX_BYTES);
        let mut bytes = vec![0; usize::try_from(length).unwrap_or_default()];
        let mut read = 0;
        while read < bytes.len() {
            match rustix::io::pread(&self.0, &mut bytes[read..], read as u64) {
                Ok(0) | Err(_) => break,
                Ok(more) => read += more,
            }
        }
        bytes.truncate(read);
        bytes
    }

    /// Returns what was written, as far as it concerns handlers with such files.
    pub(super) fn read(&self, handlers: &[PathBuf]) -> Option<Places> {
        Places::of(&String::from_utf8_lossy(&self.bytes()), handlers)
    }
}

impl AsFd for Stacks {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Stacks of the threads of a worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Places {
    /// Innermost frames of handlers, such as `/m/model.py:3 in execute`.
    handlers: Vec<String>,
    /// The stacks, as Python writes them.
    text: String,
    /// Indicates that they were written at a fatal signal.
    pub(super) is_fatal: bool,
    /// Indicates that Python's debugger is on a stack.
    pub(super) is_debugged: bool,
}

impl Places {
    /// Returns the innermost frames of handlers, in one line.
    pub(super) fn of_handlers(&self) -> Option<String> {
        (!self.handlers.is_empty()).then(|| self.handlers.join(", or at "))
    }

    /// Returns whether the first thread was in the import of a handler file.
    pub(super) fn is_import(&self, handler: &Path) -> bool {
        let path = written(handler);
        let mut frames = self.text.lines().skip(1).map_while(Frame::of);
        frames.any(|frame| frame.file == path && frame.function == "<module>")
    }

    /// Returns the line of a handler file where the first thread was, or what it had called.
    pub(super) fn line_in(&self, handler: &Path) -> Option<u32> {
        let path = written(handler);
        let frames = self.text.lines().skip(1).map_while(Frame::of);
        let mut frames = frames.filter(|frame| frame.file == path);
        frames.next()?.number.parse().ok()
    }
}

/// Formats as what follows the line that says how the worker died.
impl fmt::Display for Places {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.of_handlers() {
            None => formatter.write_str("threads of the worker at its end:")?,
            Some(handlers) => write!(
                formatter,
                "the handler was at {handlers}; threads of the worker at its end:"
            )?,
        }
        write!(formatter, "\n{}", self.text)
    }
}

/// The stack of a thread, from the innermost frame on.
#[derive(Default)]
struct Thread<'a> {
    head: &'a str,
    frames: Vec<Frame<'a>>,
}

struct Frame<'a> {
    line: &'a str,
    file: &'a str,
    number: &'a str,
    function: &'a str,
}

impl<'a> Frame<'a> {
    /// Reads `  File "PATH", line N in FUNCTION`.
    fn of(line: &'a str) -> Option<Self> {
        let rest = line.strip_prefix("  File \"")?;
        let (file, rest) = rest.rsplit_once("\", line ")?;
        let (number, function) = rest.split_once(" in ")?;
        Some(Self {
            line,
            file,
            number,
            function,
        })
    }

    /// Returns whether it is of what runs handlers, which their authors need not see.
    fn is_ours(&self) -> bool {
        self.file.starts_with("<frozen ")
            || ["/pyovms/worker.py", "/pyovms/loading.py"]
                .iter()
                .any(|ours| self.file.ends_with(ours))
    }

    /// Returns whether it is of a handler, or of a file beside one.
    fn is_of(&self, folders: &[String]) -> bool {
        folders.iter().any(|folder| {
            let inside = self.file.strip_prefix(folder.as_str());
            inside.is_some_and(|inside| !inside.contains("site-packages/"))
        })
    }
}

impl Thread<'_> {
    fn place(&self, folders: &[String]) -> Option<String> {
        let frame = self.frames.iter().find(|frame| frame.is_of(folders))?;
        Some(format!(
            "{}:{} in {}",
            frame.file, frame.number, frame.function
        ))
    }

    /// Returns whether Python code has started it, and not a call.
    fn is_started(&self) -> bool {
        let outermost = self.frames.last();
        outermost.is_some_and(|frame| frame.function == "_bootstrap")
    }
}

impl Places {
    /// Takes what `faulthandler` has written apart; `None` if there is no frame of anybody.
    fn of(text: &str, handlers: &[PathBuf]) -> Option<Self> {
        // A worker dies once; what is before that is of something else.
        let (text, is_fatal) = match text.rfind("Fatal Python error: ") {
            Some(begin) => (&text[begin..], true),
            None => (text, false),
        };
        let mut threads: Vec<Thread<'_>> = Vec::new();
        for line in text.lines() {
            let is_head = line.ends_with(" (most recent call first):")
                && (line.starts_with("Thread ") || line.starts_with("Current thread "));
            if is_head {
                threads.push(Thread {
                    head: line,
                    ..Thread::default()
                });
            } else if let (Some(thread), Some(frame)) = (threads.last_mut(), Frame::of(line))
                && !frame.is_ours()
            {
                thread.frames.push(frame);
            }
        }
        threads.retain(|thread| !thread.frames.is_empty());
        let folders: Vec<String> = handlers.iter().filter_map(|path| folder(path)).collect();
        // Those of calls first.
        threads.sort_by_key(|thread| {
            (
                !thread.head.starts_with("Current"),
                thread.place(&folders).is_none(),
                thread.is_started(),
            )
        });
        let mut places = Vec::new();
        for thread in &threads {
            // The one that got a fatal signal is the one that caused it.
            let counts = match is_fatal {
                true => thread.head.starts_with("Current"),
                false => !thread.is_started(),
            };
            if let Some(place) = thread.place(&folders).filter(|_| counts)
                && !places.contains(&place)
                && places.len() < MAX_PLACES
            {
                places.push(place);
            }
        }
        let mut frames = threads.iter().flat_map(|thread| &thread.frames);
        let is_debugged =
            frames.any(|frame| frame.file.ends_with("/pdb.py") && !frame.is_of(&folders));
        let lines = threads
            .iter()
            .flat_map(|thread| {
                std::iter::once(thread.head).chain(thread.frames.iter().map(|frame| frame.line))
            })
            .collect::<Vec<_>>();
        let more = lines.len().saturating_sub(MAX_LINES);
        let mut text = lines[..lines.len() - more].join("\n");
        if more > 0 {
            let _ = write!(text, "\n… {more} more lines");
        }
        (!lines.is_empty()).then_some(Self {
            handlers: places,
            text,
            is_fatal,
            is_debugged,
        })
    }
}

/// Returns the folder of a file with its slash, as `faulthandler` writes the names of files.
fn folder(path: &Path) -> Option<String> {
    Some(written(path.parent()?) + "/")
}

/// Returns a path as `faulthandler` writes the names of files.
fn written(path: &Path) -> String {
    let mut written = String::new();
    for chunk in path.as_os_str().as_bytes().utf8_chunks() {
        for character in chunk.valid().chars() {
            // Nothing fails in memory.
            let _ = match u32::from(character) {
                0x20..0x7f => write!(written, "{character}"),
                code @ ..=0xff => write!(written, "\\x{code:02x}"),
                code @ ..=0xffff => write!(written, "\\u{code:04x}"),
                code => write!(written, "\\U{code:08x}"),
            };
        }
        // Python has such bytes as lone surrogates.
        for byte in chunk.invalid() {
            let _ = write!(written, "\\udc{byte:02x}");
        }
    }
    written
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::Places;

    fn places(text: &str) -> String {
        let handlers = [PathBuf::from("/m/é/model.py")];
        Places::of(text, &handlers).map_or_else(String::new, |places| places.to_string())
    }

    #[test]
    fn the_thread_of_a_fatal_signal_says_where_the_handler_was() {
        insta::assert_snapshot!(places(r#"Fatal Python error: Segmentation fault

Thread 0x00007f01 (most recent call first):
  File "/m/\xe9/other.py", line 1 in wait

Current thread 0x00007f02 (most recent call first):
  File "/usr/lib/python3.11/ctypes/__init__.py", line 519 in string_at
  File "/m/\xe9/helper.py", line 3 in crash
  File "/m/\xe9/model.py", line 12 in execute

Thread 0x00007f03 (most recent call first):
  <no Python frame>

Thread 0x00007f04 (most recent call first):
  File "/p/pyovms/worker.py", line 170 in work
  File "<frozen runpy>", line 198 in _run_module_as_main

Extension modules: numpy.core._multiarray_umath (total: 1)
"#), @r#"
        the handler was at /m/\xe9/helper.py:3 in crash; threads of the worker at its end:
        Current thread 0x00007f02 (most recent call first):
          File "/usr/lib/python3.11/ctypes/__init__.py", line 519 in string_at
          File "/m/\xe9/helper.py", line 3 in crash
          File "/m/\xe9/model.py", line 12 in execute
        Thread 0x00007f01 (most recent call first):
          File "/m/\xe9/other.py", line 1 in wait
        "#);
    }

    #[test]
    fn threads_of_calls_say_where_the_handler_was() {
        let thread = |frames: &str| format!("Thread 0x1 (most recent call first):\n{frames}\n");
        let own = r#"  File "/m/\xe9/model.py", line 2 in loop
  File "/usr/lib/python3.11/threading.py", line 995 in _bootstrap"#;
        let call = r#"  File "/m/\xe9/site-packages/x.py", line 1 in x
  File "/m/\xe9/model.py", line 7 in execute"#;
        let shown = places(&(thread(own) + &thread(call)));
        let first = shown.lines().next().unwrap();
        assert_eq!(
            first,
            r"the handler was at /m/\xe9/model.py:7 in execute; threads of the worker at its end:"
        );
    }

    #[test]
    fn the_stacks_are_short_in_the_log() {
        let frames = "  File \"/x.py\", line 1 in f\n".repeat(100);
        let shown = places(&format!(
            "Current thread 0x1 (most recent call first):\n{frames}"
        ));
        assert_eq!(shown.lines().count(), 42);
        assert!(shown.starts_with("threads of the worker at its end:\n"));
        assert!(shown.ends_with("\n… 61 more lines"), "{shown}");
    }

    #[test]
    fn nothing_is_made_of_nothing() {
        for text in [
            "",
            "Fatal",
            "Current thread 0x1 (most recent call first):\n  <no Python frame>\n",
            "  File \"/x.py\", line 1 in f\n",
        ] {
            assert_eq!(places(text), "", "{text}");
        }
    }
}
