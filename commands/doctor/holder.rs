//! Process that listens on a port, as far as `/proc` has it.

use std::{ffi::OsStr, fs, os::unix::ffi::OsStrExt as _, path::Path};

use rustix::process::getuid;

/// State of a socket that listens, as the kernel writes it.
const LISTENS: &str = "0A";

/// Process that listens on a port.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct PortHolder {
    /// User of the socket.
    user: u32,
    /// Process, if its files may be looked at.
    process: Option<ListeningProcess>,
}

#[derive(Debug, PartialEq, Eq)]
struct ListeningProcess {
    id: u32,
    /// Name of the program, without its arguments, which may have secrets.
    name: String,
    /// Indicates that it is `ovms serve`.
    is_server: bool,
}

impl PortHolder {
    /// Finds who listens on a port; `None` if nobody does, or it is not known.
    pub(super) fn of(port: u16) -> Option<Self> {
        Self::below(Path::new("/proc"), port)
    }

    fn below(proc: &Path, port: u16) -> Option<Self> {
        let (user, inode) = ["net/tcp", "net/tcp6"].iter().find_map(|table| {
            let table = fs::read_to_string(proc.join(table)).ok()?;
            table.lines().skip(1).find_map(|line| listener(line, port))
        })?;
        let socket = format!("socket:[{inode}]");
        let processes = fs::read_dir(proc).into_iter().flatten().flatten();
        let mut processes = processes.filter(|entry| has_file(&entry.path(), socket.as_bytes()));
        let process = processes.find_map(|entry| ListeningProcess::read(&entry.path()));
        Some(Self { user, process })
    }

    /// Returns the id of the process, if it is known.
    pub(super) fn process(&self) -> Option<u32> {
        self.process.as_ref().map(|process| process.id)
    }

    /// Describes the process.
    pub(super) fn described(&self) -> String {
        let is_other = self.user != getuid().as_raw();
        let user = match is_other {
            true => format!(" of user {}", self.user),
            false => String::new(),
        };
        match &self.process {
            Some(process) if process.is_server => {
                format!("`ovms serve`{user} runs there, process {}", process.id)
            }
            Some(process) => format!("`{}`{user} has it, process {}", process.name, process.id),
            None => format!("a process{user} has it"),
        }
    }
}

impl ListeningProcess {
    /// Reads the name of a process below `/proc`; `None` of a folder of another kind.
    fn read(folder: &Path) -> Option<Self> {
        let id = folder.file_name()?.to_str()?.parse().ok()?;
        let name = fs::read_to_string(folder.join("comm")).ok()?;
        let name = name.trim_end().to_owned();
        let line = fs::read(folder.join("cmdline")).unwrap_or_default();
        let mut arguments = line.split(|byte| *byte == 0).skip(1);
        let first = arguments.find(|it| *it != b"-q" && *it != b"--quiet");
        let serves = first.is_some_and(|first| first == b"serve" || first.starts_with(b"--"));
        Some(Self {
            id,
            is_server: serves && name == "ovms",
            name,
        })
    }
}

/// Returns user and inode of a socket that listens on a port, from its line of the kernel's table.
fn listener(line: &str, port: u16) -> Option<(u32, String)> {
    let mut fields = line.split_whitespace().skip(1);
    let (_, local) = fields.next()?.rsplit_once(':')?;
    let state = fields.nth(1)?;
    let user = fields.nth(3)?.parse().ok()?;
    let inode = fields.nth(1)?;
    let is_it = u16::from_str_radix(local, 16) == Ok(port) && state == LISTENS;
    is_it.then(|| (user, inode.to_owned()))
}

/// Returns whether one of the open files of a process is this one.
fn has_file(process: &Path, file: &[u8]) -> bool {
    let files = fs::read_dir(process.join("fd")).into_iter().flatten();
    let mut links = files
        .flatten()
        .filter_map(|it| fs::read_link(it.path()).ok());
    links.any(|link| link.as_os_str() == OsStr::from_bytes(file))
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::symlink, path::Path};

    use rustix::process::getuid;

    use super::PortHolder;

    /// Makes a folder as `/proc` is, with a listener on port 9000 whose socket the process 77 has open.
    fn proc(table: &str, user: u32) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("net")).unwrap();
        let lines = format!(
            "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n   \
             0: 0100007F:2328 0100007F:9999 01 00000000:00000000 00:00000000 00000000     0        0 1 1\n   \
             1: 00000000:2328 00000000:0000 0A 00000000:00000000 00:00000000 00000000 {user:>5}        0 4711 1\n"
        );
        fs::write(root.path().join("net").join(table), lines).unwrap();
        root
    }

    fn process(root: &Path, name: &str, line: &str) {
        let folder = root.join("77");
        fs::create_dir_all(folder.join("fd")).unwrap();
        symlink("/dev/null", folder.join("fd/0")).unwrap();
        symlink("socket:[4711]", folder.join("fd/5")).unwrap();
        fs::write(folder.join("comm"), format!("{name}\n")).unwrap();
        fs::write(folder.join("cmdline"), line.replace(' ', "\0")).unwrap();
    }

    fn said(root: &Path) -> String {
        let holder = PortHolder::below(root, 9000);
        holder.map_or_else(|| "nobody".to_owned(), |it| it.described())
    }

    #[test]
    fn who_listens_is_reported_by_name_without_arguments() {
        let user = getuid().as_raw();
        for (table, name, line, expected) in [
            (
                "tcp",
                "ovms",
                "ovms serve m",
                "`ovms serve` runs there, process 77",
            ),
            (
                "tcp6",
                "ovms",
                "/bin/ovms --port 9",
                "`ovms serve` runs there, process 77",
            ),
            ("tcp", "ovms", "ovms bench m", "`ovms` has it, process 77"),
            ("tcp", "nc", "nc -l secret", "`nc` has it, process 77"),
        ] {
            let root = proc(table, user);
            assert_eq!(said(root.path()), "a process has it");
            process(root.path(), name, line);
            assert_eq!(said(root.path()), expected);
            assert_eq!(PortHolder::below(root.path(), 9001), None);
        }
        let root = proc("tcp", user + 1);
        assert_eq!(
            said(root.path()),
            format!("a process of user {} has it", user + 1)
        );
        assert_eq!(said(Path::new("/nonexistent")), "nobody");
    }
}
