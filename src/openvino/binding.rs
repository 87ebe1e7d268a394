//! Detection of a runtime that binds threads to processors at each inference.

use std::{env, fs, path::Path};

/// The variable of hwloc, with which TBB binds threads: with 0 it takes the machine for another one,
/// and binds nothing (hwloc's manual, "Environment Variables").
const VARIABLE: &str = "HWLOC_THISSYSTEM";

/// Spares inferences the binding of their threads where it says nothing. To be called before the
/// process has a second thread, else it does nothing.
///
/// OpenVINO asks TBB for one thread on each core, so that TBB binds whatever thread begins an inference,
/// and frees it at the end: three calls of the system, also if `ENABLE_CPU_PINNING` is off. Measured with
/// a tiny model on two cores: 4.5 µs an inference with them, 1.6 µs without. On a machine of equal
/// cores with one thread each, on one memory node, all of which the process may use, any core is as
/// good as any other. Elsewhere, and where the variable is set, nothing changes.
#[expect(
    clippy::disallowed_methods,
    reason = "there is no other thread, and hwloc takes nothing else"
)]
pub fn spare_binding() {
    let threads = fs::read_dir("/proc/self/task").map_or(0, Iterator::count);
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    if threads != 1 || env::var_os(VARIABLE).is_some() || !is_uniform(Path::new("/sys"), &status) {
        return;
    }
    // SAFETY: no other thread reads the environment, since there is none.
    unsafe {
        env::set_var(VARIABLE, "0");
    }
}

/// Returns whether each processor of a machine is as good as any other for each thread of a process.
///
/// `system` is where sysfs is mounted, `status` the process's file in procfs. What is not known counts
/// against it.
fn is_uniform(system: &Path, status: &str) -> bool {
    let devices = system.join("devices");
    let read = |path: &str| fs::read_to_string(devices.join(path)).ok();
    let is = |path: &str, wanted: &str| read(path).is_some_and(|text| text.trim() == wanted);
    let allowed = status
        .lines()
        .find_map(|line| line.strip_prefix("Cpus_allowed_list:"))
        .map(str::trim);
    // Cores of two kinds have a unit of counters for each kind.
    let is_hybrid = devices.join("cpu_atom").exists();
    allowed.is_some_and(|allowed| is("system/cpu/online", allowed))
        && is("system/cpu/smt/active", "0")
        && is("system/node/online", "0")
        && !is_hybrid
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns whether the processors of a machine are alike.
    fn is_uniform_with(
        online: &str,
        smt: &str,
        nodes: &str,
        allowed: &str,
        kinds: &[&str],
    ) -> bool {
        let folder = tempfile::tempdir().unwrap();
        let devices = folder.path().join("devices");
        for (path, text) in [
            ("system/cpu/online", online),
            ("system/cpu/smt/active", smt),
            ("system/node/online", nodes),
        ] {
            let path = devices.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, format!("{text}\n")).unwrap();
        }
        for kind in kinds {
            fs::create_dir(devices.join(kind)).unwrap();
        }
        let status = format!("Name:\tovms\nCpus_allowed_list:\t{allowed}\nThreads:\t1\n");
        is_uniform(folder.path(), &status)
    }

    #[test]
    fn only_cores_that_are_alike_and_allowed_need_no_binding() {
        assert!(is_uniform_with("0-1", "0", "0", "0-1", &["cpu"]));
        assert!(!is_uniform_with("0-7", "0", "0", "0-1", &[]));
        assert!(!is_uniform_with("0-1", "1", "0", "0-1", &[]));
        assert!(!is_uniform_with("0-1", "0", "0-1", "0-1", &[]));
        assert!(!is_uniform_with(
            "0-1",
            "0",
            "0",
            "0-1",
            &["cpu_core", "cpu_atom"]
        ));
    }

    #[test]
    fn what_is_not_known_counts_against_it() {
        let empty = tempfile::tempdir().unwrap();
        assert!(!is_uniform(empty.path(), "Cpus_allowed_list:\t0\n"));
        assert!(!is_uniform(empty.path(), ""));
    }

    #[test]
    fn a_process_with_other_threads_keeps_its_environment() {
        // The threads of the tests.
        let (done, wait) = std::sync::mpsc::channel::<()>();
        crate::task::thread("test", move || {
            let _ = wait.recv();
        })
        .unwrap();
        let before = env::var_os(VARIABLE);
        spare_binding();
        assert_eq!(env::var_os(VARIABLE), before);
        drop(done);
    }
}
