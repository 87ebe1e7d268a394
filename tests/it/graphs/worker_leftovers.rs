//! Processes that are left of a server, and graphs without a worker.

use std::{
    fs,
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use super::{
    shared,
    workers::{FINE, are_gone, config_with, is_fine, number},
};
use crate::support::{
    Server, cli, eventually,
    graphs::{CODE, code, file, reported, shown},
    grpc::Grpc,
    pipelines::is_ready,
    repository,
    server::{free_ports, on},
};

/// Reads the number of a process from a file, once it is there.
fn noted(note: &Path) -> u32 {
    eventually("it has begun", || {
        fs::read_to_string(note).ok()?.parse().ok()
    })
}

#[test]
fn nothing_is_left_when_the_process_group_of_the_server_is_killed() {
    let config = config_with(&[]);
    let (path, ports) = (config.write(), free_ports());
    let mut command = cli::command();
    command.args(["serve", "--config_path"]).arg(path);
    let mut server = Server::spawn(command.args(on(ports)).process_group(0), ports);
    server.wait_ready();
    let client = Grpc::connect(&server);
    let note = config.beside("child");
    let body = format!(
        "import subprocess\nchild = subprocess.Popen(['sleep', '1000'])\nopen({note:?}, 'w').write(str(child.pid))\n{FINE}"
    );
    assert_eq!(reported(&client, code("py", &body)), "out UINT8 [4] fine");
    let ended = [
        noted(&note),
        number(&client, "py", "os.getpid()"),
        number(&client, "py", "os.getppid()"),
    ];
    let group = Pid::from_raw(server.id().cast_signed()).expect("it runs");
    kill_process_group(group, Signal::KILL).expect("it runs");
    server.wait();
    are_gone(&ended);
}

/// Makes a handler create a lock and shared memory; returns the file of that memory.
pub(super) fn named_memory(client: &Grpc, graph: &str) -> PathBuf {
    let body = "import multiprocessing\nfrom multiprocessing import shared_memory\n\
                self.memory = shared_memory.SharedMemory(create=True, size=100)\n\
                self.lock = multiprocessing.get_context('spawn').Lock()\n\
                return [Tensor('out', self.memory.name.encode())]";
    let text = reported(client, code(graph, body));
    let name = text.rsplit(' ').next().expect("it is reported");
    let memory = Path::new("/dev/shm").join(name);
    assert!(memory.exists(), "{text}");
    memory
}

#[test]
fn names_of_multiprocessing_go_with_a_worker_that_is_killed() {
    let (_, client) = shared::connect();
    let memory = named_memory(&client, "names");
    let body = "import os, subprocess; self.child = subprocess.Popen(['sleep', '1000']); \
                return [Tensor('out', str(self.child.pid).encode())]";
    let text = reported(&client, code("names", body));
    let child = text
        .rsplit(' ')
        .next()
        .and_then(|number| number.parse().ok());
    let worker = number(&client, "names", "os.getpid()");
    let tracker = number(
        &client,
        "names",
        "__import__('multiprocessing.resource_tracker').resource_tracker._resource_tracker._pid",
    );
    kill_process(
        Pid::from_raw(worker.cast_signed()).expect("it is one"),
        Signal::KILL,
    )
    .expect("it runs");
    are_gone(&[worker, child.expect("it is reported"), tracker]);
    eventually("the name is gone", || (!memory.exists()).then_some(()));
    is_fine(&client, "names");
}

#[test]
fn nothing_is_left_whatever_is_killed_at_once() {
    // It has a session and an environment of its own, and a parent that has ended.
    let leaves = |note: &Path| {
        format!(
            "import subprocess\nshell = 'sleep 1000 & echo $! >{note}.part; mv {note}.part {note}'\n\
             subprocess.run(['sh', '-c', shell], start_new_session=True, env={{'PATH': os.environ['PATH']}})\n{FINE}",
            note = note.display()
        )
    };
    const PARENT: &str =
        "int(open(f'/proc/{os.getppid()}/stat').read().rpartition(')')[2].split()[1])";
    // One that serves afterwards is killed with the next.
    for kills in [
        &[&["forks"][..], &["keeps"], &["forks", "server"]][..],
        &[&["keeps", "server"]],
    ] {
        let config = config_with(&[]);
        let mut server = config.serve();
        let client = Grpc::connect(&server);
        for (index, killed) in kills.iter().enumerate() {
            let note = config.beside(&format!("child{index}"));
            let text = reported(&client, code("py", &leaves(&note)));
            assert_eq!(text, "out UINT8 [4] fine");
            let child = eventually("it has begun", || {
                fs::read_to_string(&note).ok()?.trim().parse().ok()
            });
            let worker = number(&client, "py", "os.getpid()");
            let forks = number(&client, "py", "os.getppid()");
            let keeps = number(&client, "py", PARENT);
            for name in *killed {
                let process = match *name {
                    "forks" => forks,
                    "keeps" => keeps,
                    _ => server.id(),
                };
                let process = Pid::from_raw(process.cast_signed()).expect("it is one");
                kill_process(process, Signal::KILL).expect("it runs");
            }
            if killed.contains(&"server") {
                server.wait();
            }
            are_gone(&[child, worker, forks, keeps]);
            if !killed.contains(&"server") {
                eventually("another worker is there", || {
                    let response = client.infer(code("py", FINE)).ok()?;
                    (shown(&response) == "out UINT8 [4] fine").then_some(())
                });
            }
        }
    }
}

#[test]
fn a_python_that_does_not_start_ends_with_the_server() {
    for signal in ["TERM", "KILL"] {
        let config = config_with(&[]);
        let packages = repository::folder();
        let note = packages.path().join("note");
        let numpy = packages.path().join("numpy");
        fs::create_dir(&numpy).unwrap();
        let hangs = format!(
            "import os, time\nopen({note:?}, 'w').write(str(os.getpid()))\ntime.sleep(1000)\n"
        );
        fs::write(numpy.join("__init__.py"), hangs).unwrap();
        let ports = free_ports();
        let mut command = cli::command();
        command.args(["serve", "--config_path"]).arg(config.write());
        command.env("PYTHONPATH", packages.path()).args(on(ports));
        command.args(["--shutdown-timeout-seconds", "1"]);
        let mut server = Server::spawn(&mut command, ports);
        let process = noted(&note);
        server.signal(signal);
        server.wait();
        are_gone(&[process]);
    }
}

#[test]
fn a_graph_whose_next_worker_does_not_come_is_not_ready() {
    let config = config_with(&[]);
    let note = config.beside("note");
    // The second time it does not end.
    let kept = "        self.kwargs = kwargs\n";
    let hangs = format!(
        "{kept}        import os, time\n        if os.path.exists({note:?}):\n            time.sleep(1000)\n        \
         open({note:?}, 'w').close()\n"
    );
    file(&config, "py/handler.py", &CODE.replace(kept, &hangs));
    let server = config.serve();
    let client = Grpc::connect(&server);
    eventually("it is ready", || {
        is_ready(&server, &client, "py").then_some(())
    });
    let text = reported(&client, code("py", "import os; os._exit(8)"));
    assert!(text.contains("ended with status 8"), "{text}");
    eventually("it is not ready", || {
        (!is_ready(&server, &client, "py")).then_some(())
    });
    let text = reported(&client, code("py", FINE));
    assert!(
        text.contains("worker of graph py has not started within 2 s"),
        "{text}"
    );
    is_fine(&client, "other");
    let line = server.wait_log("the load of the handler has not ended for 5 s");
    assert!(line.contains("of=\"graph py\" node=\"py\""), "{line}");
}
