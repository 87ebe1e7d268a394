//! Runner of the steps of a page.

use std::{
    fs,
    os::unix::{
        fs::{PermissionsExt, symlink},
        process::CommandExt,
    },
    path::{Path, PathBuf},
    process::{self, Child, ExitStatus, Stdio},
    time::{Duration, Instant},
};

use tempfile::TempDir;

use super::{
    Command, Page, Step,
    output::{differs, is_same},
};
use crate::support::{Server, eventually, repository, server::free_ports};

/// Folders linked as they are into the working folder of a page, which only reads them.
const LINKED: [&str; 4] = ["completions", "docs", "src", "tests"];

/// Folders whose files are linked one by one, because pages write beside them.
const MIRRORED: [&str; 2] = ["benches", "fixtures"];

/// Folders copied into the working folder, because programs in them look up their own location.
const COPIED: [&str; 2] = ["deploy", "examples"];

/// Time limit of a command; some of them compile.
const LIMIT: Duration = Duration::from_secs(120);

/// Runs a page from its first command to its last.
///
/// # Panics
///
/// If a command fails or its output differs.
pub(crate) fn run(page: &Page) {
    let mut runner = Runner::new();
    for step in &page.steps {
        match step {
            Step::Run(command) => runner.run(&page.name, command),
            Step::Write { name, text } => runner.write(name, text),
        }
    }
    runner.stop();
}

/// Location in the page, printed when the test fails.
struct Place(String);

impl Drop for Place {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}", self.0);
        }
    }
}

struct Runner {
    /// Running server; dropped before the folder.
    server: Option<(Server, Place)>,
    ports: (u16, u16),
    management_port: u16,
    folder: TempDir,
}

impl Runner {
    fn new() -> Self {
        let folder = repository::folder();
        let root = Path::new(env!("WORKSPACE_ROOT"));
        let work = folder.path().join("work");
        fs::create_dir(&work).unwrap();
        for name in LINKED {
            symlink(root.join(name), work.join(name)).unwrap();
        }
        for name in MIRRORED {
            mirror(&root.join(name), &work.join(name), &|from, to| {
                symlink(from, to).unwrap();
            });
        }
        for name in COPIED {
            mirror(&root.join(name), &work.join(name), &|from, to| {
                // What a link leads to lies at the same place there.
                match fs::read_link(from) {
                    Ok(target) => symlink(target, to).unwrap(),
                    Err(_) => drop(fs::copy(from, to).unwrap()),
                }
            });
        }
        for below in ["bin", "home"] {
            fs::create_dir(folder.path().join(below)).unwrap();
        }
        let starter = folder.path().join("bin/ovms");
        fs::write(&starter, include_str!("ovms.sh")).unwrap();
        fs::set_permissions(&starter, fs::Permissions::from_mode(0o755)).unwrap();
        Self {
            folder,
            ports: free_ports(),
            management_port: free_ports().0,
            server: None,
        }
    }

    fn write(&self, name: &str, text: &str) {
        let is_linked = |folder: &str| Path::new(name).starts_with(folder);
        assert!(
            !LINKED.into_iter().any(is_linked),
            "{name} would be written into the sources"
        );
        let path = self.folder.path().join("work").join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        // What is linked is not written through.
        let _ = fs::remove_file(&path);
        fs::write(path, self.with_ports(text)).unwrap();
    }

    fn run(&mut self, page: &str, command: &Command) {
        let text = self.with_ports(&command.text);
        let place = Place(format!("{page}:{}: $ {text}", command.line));
        let expected: Vec<String> = command
            .expected
            .iter()
            .map(|line| self.with_ports(line))
            .collect();
        if serves(&text) {
            self.stop();
            self.serve(&text, &expected, place);
            return;
        }
        let (status, said) = self.shell(&text);
        assert!(status.success(), "{}: {status}\n{said}", place.0);
        if !expected.is_empty()
            && let Some(difference) = differs(&expected, &said)
        {
            panic!("{}: {difference}", place.0);
        }
    }

    fn serve(&mut self, text: &str, expected: &[String], place: Place) {
        // What is added belongs before a comment.
        let (text, _) = text.split_once("  #").unwrap_or((text, ""));
        let mut text = text.trim_end().to_owned();
        let (port, rest_port) = self.ports;
        if !text.contains("port ") && !text.contains("port=") {
            text = format!("{text} --port {port} --rest_port {rest_port}");
        }
        for flag in ["--grpc_bind_address", "--rest_bind_address"] {
            if !text.replace('-', "_").contains(&flag.replace('-', "_")) {
                text = format!("{text} {flag} 127.0.0.1");
            }
        }
        // The signal at the end is for the program, not for a shell.
        let script = format!("{}exec env {text}", self.state());
        let server = Server::spawn(&mut self.command(&script), self.ports);
        let (server, _) = self.server.insert((server, place));
        server.wait_ready();
        for line in expected.iter().filter(|line| line.trim() != "…") {
            eventually(&format!("`{line}` in the log"), || {
                let log = server.log();
                let mut lines = log.lines();
                lines.find(|said| is_same(line, said.trim_start_matches("stderr: ")))?;
                Some(())
            });
        }
    }

    /// Stops the server, which must exit with success.
    fn stop(&mut self) {
        if let Some((mut server, place)) = self.server.take() {
            server.signal("TERM");
            let status = server.wait();
            assert!(status.success(), "{}: ended with {status}", place.0);
        }
    }

    /// Runs a command, and returns its exit status and output.
    fn shell(&self, text: &str) -> (ExitStatus, String) {
        let said = self.folder.path().join("said");
        let file = fs::File::create(&said).unwrap();
        let script = format!(
            "{}{text}\nstatus=$?\nexport -p >'{1}'\npwd >'{2}'\nexit $status",
            self.state(),
            self.of_state("environment"),
            self.of_state("folder"),
        );
        let mut child = self
            .command(&script)
            .stdin(Stdio::null())
            .stdout(file.try_clone().unwrap())
            .stderr(file)
            .process_group(0)
            .spawn()
            .unwrap();
        let status = within_limit(&mut child);
        let said = String::from_utf8_lossy(&fs::read(said).unwrap()).into_owned();
        match status {
            Some(status) => (status, said),
            None => panic!("$ {text}: no end within {LIMIT:?}\n{said}"),
        }
    }

    /// Returns the lines that restore the state of the previous shell.
    fn state(&self) -> String {
        let environment = self.of_state("environment");
        let folder = self.of_state("folder");
        format!(
            "if [ -f '{folder}' ]; then . '{environment}'; cd \"$(cat '{folder}')\" || exit; fi\n"
        )
    }

    fn of_state(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    /// Creates a shell in the working folder with the environment of a new user.
    fn command(&self, script: &str) -> process::Command {
        let root = Path::new(env!("WORKSPACE_ROOT"));
        let mut path = vec![
            self.folder.path().join("bin"),
            root.join(".venv/bin"),
            root.join("target/tools/bin"),
        ];
        let of_tests = std::env::var_os("PATH").unwrap_or_default();
        path.extend(std::env::split_paths(&of_tests));
        let (port, rest_port) = self.ports;
        let mut command = process::Command::new("sh");
        command
            .args(["-c", script])
            .current_dir(self.folder.path().join("work"))
            .env("PATH", std::env::join_paths(path).unwrap())
            .env("OVMS_PROGRAM", env!("CARGO_BIN_EXE_ovms"))
            .env("OVMS_URL", format!("127.0.0.1:{port}"))
            .env("OVMS_OWN_URL", format!("127.0.0.1:{port}"))
            .env("OVMS_REST_URL", format!("127.0.0.1:{rest_port}"))
            .env("HOME", self.folder.path().join("home"))
            .env("LC_ALL", "C.UTF-8")
            .env("NO_COLOR", "1")
            .env("COLUMNS", "100")
            .env("OPENVINO_INSTALL_DIR", runtime())
            .env("PYTHONDONTWRITEBYTECODE", "1");
        for name in [
            "VIRTUAL_ENV",
            "CONDA_PREFIX",
            "XDG_DATA_HOME",
            "XDG_CONFIG_HOME",
            "XDG_CACHE_HOME",
        ] {
            command.env_remove(name);
        }
        command
    }

    /// Replaces the default ports in a text with those of this page.
    fn with_ports(&self, text: &str) -> String {
        let (port, rest_port) = self.ports;
        let text = replace_number(text, "9000", &port.to_string());
        let text = replace_number(&text, "8001", &self.management_port.to_string());
        replace_number(&text, "8000", &rest_port.to_string())
    }
}

/// Returns whether a command starts a server that keeps running.
fn serves(text: &str) -> bool {
    const ENDS: [&str; 7] = [
        "--check",
        "--list-models",
        "--print-config",
        "--add-to-config",
        "--remove-from-config",
        "--help",
        "|",
    ];
    let text = text.replace("\\\n", " ");
    let begins = text
        .split_whitespace()
        .skip_while(|word| word.contains('=') && !word.starts_with('-'))
        .take(2)
        .collect::<Vec<_>>();
    let is_serve = match begins[..] {
        ["ovms", second] => {
            second == "serve" || (second.starts_with("--") && second != "--version")
        }
        _ => false,
    };
    let text = text.replace('_', "-");
    is_serve && !ENDS.iter().any(|end| text.contains(end))
}

/// Replaces a number unless it is part of another one.
fn replace_number(text: &str, number: &str, new: &str) -> String {
    let mut pieces = text.split(number).peekable();
    let mut replaced = String::new();
    while let Some(piece) = pieces.next() {
        replaced.push_str(piece);
        let Some(next) = pieces.peek() else {
            break;
        };
        let is_part = piece.ends_with(|c: char| c.is_ascii_digit() || c == '.')
            || next.starts_with(|c: char| c.is_ascii_digit());
        replaced.push_str(if is_part { number } else { new });
    }
    replaced
}

/// Waits for the end of a command; kills it and its children after the time limit.
fn within_limit(child: &mut Child) -> Option<ExitStatus> {
    let started = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return Some(status);
        }
        if started.elapsed() > LIMIT {
            let group = format!("-{}", child.id());
            let _ = process::Command::new("kill")
                .args(["-KILL", "--", &group])
                .status();
            let _ = child.wait();
            return None;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Mirrors a folder file by file, so that build results stay in the copy.
fn mirror(from: &Path, to: &Path, put: &impl Fn(&Path, &Path)) {
    let Ok(entries) = fs::read_dir(from) else {
        return;
    };
    fs::create_dir_all(to).unwrap();
    for entry in entries.flatten() {
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        let is_built = from.extension().is_some_and(|extension| extension == "so")
            || entry.file_name() == "__pycache__";
        if is_built {
            continue;
        }
        if entry.file_type().unwrap().is_dir() {
            mirror(&from, &to, put);
        } else {
            put(&from, &to);
        }
    }
}

/// Returns the folder of the tests' runtime.
fn runtime() -> PathBuf {
    let named = ["OPENVINO_INSTALL_DIR", "VIRTUAL_ENV"]
        .into_iter()
        .find_map(std::env::var_os);
    let home = std::env::var_os("HOME").unwrap_or_default();
    named.map_or_else(
        || Path::new(&home).join(".local/share/ovms/runtime"),
        PathBuf::from,
    )
}
