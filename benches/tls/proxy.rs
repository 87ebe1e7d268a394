//! nginx that ends TLS in front of a server without it.

use std::{
    fs,
    net::TcpStream,
    path::Path,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, geteuid, kill_process};
use tempfile::TempDir;

use crate::{peer::free_ports, process};

/// Reason why rows with nginx have no figures where there is none.
const MISSING: &str =
    "not measured: nginx is not installed; make bench-peers PEERS=nginx fetches it";

/// Time for its start.
const START: Duration = Duration::from_secs(10);

/// nginx with a worker for each core; stopped on drop.
pub(super) struct Nginx {
    child: Child,
    port: u16,
    _folder: TempDir,
}

impl Nginx {
    /// Starts it in front of a port, with a certificate and its key; or says why there is none.
    pub(super) fn start(certificate: &Path, key: &Path, upstream: u16) -> Result<Self, String> {
        let program = process::tool("nginx").ok_or(MISSING)?;
        let folder = tempfile::tempdir().expect("a folder for its files");
        let workers = thread::available_parallelism().map_or(1, usize::from);
        let [port] = free_ports();
        // Workers are of the user that starts it unless that is root.
        let user = if geteuid().is_root() {
            "user root root;"
        } else {
            ""
        };
        let values = [
            ("USER", user.to_owned()),
            ("WORKERS", workers.to_string()),
            ("FOLDER", folder.path().display().to_string()),
            ("UPSTREAM", upstream.to_string()),
            ("PORT", port.to_string()),
            ("CERTIFICATE", certificate.display().to_string()),
            ("KEY", key.display().to_string()),
        ];
        let mut text = include_str!("nginx.conf").to_owned();
        for (name, value) in values {
            text = text.replace(&format!("@{name}@"), &value);
        }
        let path = folder.path().join("nginx.conf");
        fs::write(&path, text).expect("the folder is ours");
        let child = Command::new(&program)
            .arg("-p")
            .arg(folder.path())
            .arg("-c")
            .arg(&path)
            .args(["-e", "stderr"])
            .stdin(Stdio::null())
            .spawn()
            .map_err(|error| format!("{} does not start: {error}", program.display()))?;
        let mut nginx = Self {
            child,
            port,
            _folder: folder,
        };
        nginx.wait_ready(workers)?;
        Ok(nginx)
    }

    fn wait_ready(&mut self, workers: usize) -> Result<(), String> {
        let started = Instant::now();
        // It listens before it has workers.
        while TcpStream::connect(("127.0.0.1", self.port)).is_err() || self.workers() < workers {
            if let Ok(Some(status)) = self.child.try_wait() {
                return Err(format!("nginx has ended: {status}"));
            }
            if started.elapsed() > START {
                return Err(format!("nginx is not ready within {} s", START.as_secs()));
            }
            thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }

    fn workers(&self) -> usize {
        process::children(self.child.id()).len()
    }

    /// Returns the port for HTTPS.
    pub(super) fn port(&self) -> u16 {
        self.port
    }

    /// Returns its processes.
    pub(super) fn ids(&self) -> Vec<u32> {
        let mut ids = process::children(self.child.id());
        ids.push(self.child.id());
        ids
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        // Killed, it would leave its workers behind.
        let asked = kill_process(Pid::from_child(&self.child), Signal::TERM);
        if asked.is_err() {
            let _ = self.child.kill();
        }
        let _ = self.child.wait();
    }
}
