//! Memory that the server and its workers share: charged, bounded, and gone with a server that is killed.

use std::{collections::BTreeSet, fs, os::unix::fs::MetadataExt, path::Path, sync::LazyLock};

use super::{
    shared::{add_code, add_generator},
    worker_leftovers::named_memory,
    workers::{FINE, are_gone, config_with, is_fine, lab, number},
};
use crate::support::{
    Server, eventually,
    graphs::{code, reported},
    grpc::{self, Grpc, raw},
    model,
    pipelines::Config,
    shared_memory,
};

/// A server with little room, which one result of these tests at a time does not fill.
static SMALL: LazyLock<Server> = LazyLock::new(|| {
    let mut config = Config::of(&[]);
    add_code(&mut config, "charged", &[]);
    add_code(&mut config, "py", &[]);
    add_generator(&mut config, "gen");
    config.serve_kept(&["--max_bytes_in_flight=2000000"])
});

/// Returns the size of an output of so many bytes, or the error.
fn size(client: &Grpc, bytes: usize) -> String {
    let body = format!("return [Tensor('out', bytes({bytes}))]");
    match client.infer(code("charged", &body)) {
        Ok(response) => response.raw_output_contents[0].len().to_string(),
        Err(status) => grpc::error(&status),
    }
}

#[test]
fn results_are_charged_while_the_server_has_them() {
    let client = Grpc::connect(&SMALL);
    let worker = number(&client, "charged", "os.getpid()");
    // Often enough that what stayed charged, or was not given back, would be too much.
    for _ in 0..10 {
        assert_eq!(size(&client, 500_000), "500000");
        assert_eq!(
            size(&client, 2_000_001),
            "ResourceExhausted: Mediapipe execution failed. MP status - RESOURCE_EXHAUSTED: CalculatorGraph::Run() failed: \nCalculator::Process() for node \"py\" failed: no memory to take 2000001 bytes from a Python worker: Request is too large - it needs more than 2000000 bytes, which is the most for all requests and answers in flight; send less at once, or raise --max-bytes-in-flight"
        );
    }
    // One that keeps what it has given has its own.
    let kept =
        "self.kept = [Tensor('out', bytes(500000)) for _ in range(10)]; return self.kept[:1]";
    assert!(client.infer(code("charged", kept)).is_ok());
    assert_eq!(size(&client, 500_000), "500000");
    assert_eq!(number(&client, "charged", "os.getpid()"), worker);
}

#[test]
fn inputs_that_a_handler_keeps_leave_room_for_other_graphs() {
    let (_config, server) = lab(&["--max_bytes_in_flight=67108864"]);
    let client = Grpc::connect(&server);
    let padding = "#".repeat(3_000_000);
    let keep = format!("self.kept = getattr(self, 'kept', []) + [inputs]; {FINE}\n{padding}");
    let fine = format!("{FINE}\n{padding}");
    let mut kept = 0;
    let refused = loop {
        match client.infer(code("py", &keep)) {
            Ok(_) => kept += 1,
            Err(status) => break grpc::error(&status),
        }
        assert!(kept < 30, "more than there may be");
    };
    assert!(kept > 8, "{kept} are less than half");
    let text = "Server is overloaded - inputs of Python handlers of graph py: the most bytes allowed are 50331648 of \
                --max-bytes-in-flight; try again later";
    assert!(
        refused.starts_with("ResourceExhausted: ") && refused.contains(text),
        "{refused}"
    );
    let warning = "requests are rejected: inputs take ";
    let text = server.wait_log(warning);
    assert!(
        text.contains(" of at most 50331648 bytes, in flight or kept by handlers; "),
        "{text}"
    );
    assert!(text.contains("of=\"graph py\""), "{text}");
    for _ in 0..5 {
        assert_eq!(
            reported(&client, code("other", &fine)),
            "out UINT8 [4] fine"
        );
        assert!(client.infer(code("py", &fine)).is_err());
    }
    // What is given back is there again.
    assert_eq!(
        number(&client, "py", "len(self.__dict__.pop('kept'))"),
        kept
    );
    eventually("there is room again", || {
        client.infer(code("py", &fine)).ok()
    });
    let log = server.log();
    assert_eq!(log.matches(warning).count(), 1, "{log}");
}

#[test]
fn memory_that_a_thread_frees_between_calls_is_there_again() {
    let (config, server) = lab(&["--max_bytes_in_flight=67108864"]);
    let client = Grpc::connect(&server);
    let [go, done] = ["go", "done"].map(|name| config.beside(name));
    let wait = format!(
        "import os, threading, time\nself.kept = []\ndef free():\n  while not os.path.exists({go:?}): time.sleep(0.01)\n  self.kept.clear()\n  open({done:?}, 'w').write('yes')\nthreading.Thread(target=free, daemon=True).start()\n{FINE}"
    );
    assert_eq!(reported(&client, code("py", &wait)), "out UINT8 [4] fine");
    let keep = format!(
        "self.kept.append(inputs); {FINE}\n{}",
        "#".repeat(3_000_000)
    );
    let refused = (0..30).find_map(|_| client.infer(code("py", &keep)).err());
    assert!(refused.is_some(), "there is a bound");
    fs::write(&go, "").unwrap();
    eventually("it has freed them", || done.exists().then_some(()));
    // No call has run there since, which would report that.
    eventually("there is room again", || {
        client.infer(code("py", &keep)).ok()
    });
}

#[test]
fn inputs_that_handlers_of_all_graphs_keep_leave_room_for_what_has_none() {
    let mut config = config_with(&[]);
    config.model("passthrough_u8", &model("passthrough_u8"));
    let server = config.serve_with(&["--max_bytes_in_flight=134217728"]);
    let client = Grpc::connect(&server);
    let padding = "#".repeat(3_000_000);
    let keep = format!("self.kept = getattr(self, 'kept', []) + [inputs]; {FINE}\n{padding}");
    let mut refused = Vec::new();
    for graph in ["py", "other"] {
        let error = |_| client.infer(code(graph, &keep)).err();
        let error = (0..60).find_map(error).expect("there is a bound");
        refused.push(grpc::error(&error));
    }
    let of = |whose: &str, bytes: u64| {
        format!("Python handlers of {whose}: the most bytes allowed are {bytes} of")
    };
    assert!(
        refused[0].contains(&of("graph py", 100_663_296)),
        "{refused:?}"
    );
    let all = of("all graphs and pipelines", 109_051_904);
    assert!(refused[1].contains(&all), "{refused:?}");
    let text = server.wait_log("requests are rejected: inputs of all graphs and pipelines take ");
    assert!(text.contains("of=\"graph other\""), "{text}");
    let image = vec![7; 1_000_000];
    for _ in 0..5 {
        let request = raw("passthrough_u8", "in", "UINT8", &[1, 1_000_000], &image);
        assert_eq!(
            client.infer(request).unwrap().raw_output_contents,
            [image.as_slice()]
        );
    }
}

#[test]
fn a_generator_whose_result_has_no_room_ends_with_an_error() {
    let client = Grpc::connect(&SMALL);
    let body = "yield [Tensor('out', bytes(3000000))]\nwhile True: yield [Tensor('out', b'more')]";
    for _ in 0..3 {
        let text = reported(&client, code("gen", body));
        assert!(
            text.contains("no memory to take 3000000 bytes from a Python worker"),
            "{text}"
        );
    }
    is_fine(&client, "gen");
}

#[test]
fn a_result_that_is_more_than_a_worker_may_share_is_a_memory_error() {
    let client = Grpc::connect(&SMALL);
    let most = 512_usize << 20;
    let worker = number(&client, "py", "os.getpid()");
    // A shape that comes from a client ends no other call there.
    for (body, what) in [
        (
            format!("return [Tensor('out', bytes({}))]", most + 1),
            "pyovms.Tensor: no memory for ",
        ),
        (
            "import pyovms; return [pyovms.empty('out', (1 << 40,), 'FP32')]".to_owned(),
            "empty(): no memory for 4398046511104 bytes: ",
        ),
    ] {
        let text = reported(&client, code("py", &body));
        let limit = format!(
            "a worker may share {most} bytes of memory with the server; give less at once, or raise --max-bytes-in-flight"
        );
        assert!(text.contains("MemoryError"), "{text}");
        assert!(text.contains(what) && text.contains(&limit), "{text}");
    }
    assert_eq!(number(&client, "py", "os.getpid()"), worker);
    is_fine(&client, "py");
    is_fine(&client, "charged");
}

/// Returns the paths of what a process has open and mapped, with their inodes.
fn files(process: &Path) -> Vec<(String, u64)> {
    let maps = fs::read_to_string(process.join("maps")).unwrap_or_default();
    let mapped = maps.lines().filter_map(|line| {
        let (before, path) = line.split_once('/')?;
        let inode = before.split_whitespace().last()?.parse().ok()?;
        Some((format!("/{path}"), inode))
    });
    let mapped: Vec<_> = mapped.collect();
    let open = fs::read_dir(process.join("fd")).into_iter().flatten();
    let open = open.flatten().filter_map(|file| {
        let name = fs::read_link(file.path()).ok()?.display().to_string();
        Some((name, fs::metadata(file.path()).ok()?.ino()))
    });
    mapped.into_iter().chain(open).collect()
}

/// Returns the memory files of tensors that a process has.
fn tensors(process: &Path) -> BTreeSet<u64> {
    let files = files(process).into_iter();
    let tensors = files.filter(|(name, _)| name.starts_with("/memfd:ovms tensors"));
    tensors.map(|(_, inode)| inode).collect()
}

fn folder(process: u32) -> std::path::PathBuf {
    Path::new("/proc").join(process.to_string())
}

/// Returns the folders of all processes.
fn processes() -> impl Iterator<Item = std::path::PathBuf> {
    let all = fs::read_dir("/proc").expect("Linux has it").flatten();
    all.map(|entry| entry.path())
        .filter(|path| path.join("maps").exists())
}

/// Returns the names in the folder of shared memory, but for those that tests make themselves.
fn names() -> BTreeSet<String> {
    let files = fs::read_dir("/dev/shm").into_iter().flatten().flatten();
    files
        .map(|file| file.file_name().to_string_lossy().into_owned())
        .filter(|name| !name.starts_with(&shared_memory::PREFIX[1..]))
        .collect()
}

#[test]
fn nothing_is_left_of_a_server_that_is_killed() {
    let before = names();
    let (config, mut server) = lab(&[]);
    let client = Grpc::connect(&server);
    // Large ones both ways, small ones among others and one by itself; the worker keeps what it was given.
    let padding = "#".repeat(100_000);
    for bytes in [100_000, 5_000_000] {
        let body = format!(
            "self.kept = getattr(self, 'kept', []) + [inputs]; return [Tensor('out', bytes({bytes}))]\n{padding}"
        );
        let answer = client.infer(code("py", &body)).expect("it is fine");
        assert_eq!(answer.raw_output_contents[0].len(), bytes);
    }
    let note = config.beside("child");
    let body = format!(
        "import os, time\nif os.fork() == 0:\n  os.setsid()\n  open({note:?}, 'w').write(str(os.getpid()))\n  time.sleep(1000)\n  os._exit(0)\n{FINE}"
    );
    assert_eq!(reported(&client, code("py", &body)), "out UINT8 [4] fine");
    let child = eventually("it has begun", || {
        fs::read_to_string(&note).ok()?.parse::<u32>().ok()
    });
    let named = named_memory(&client, "py");
    let worker = number(&client, "py", "os.getpid()");
    let ended = [
        child,
        worker,
        number(&client, "py", "os.getppid()"),
        number(&client, "other", "os.getpid()"),
    ];
    let shared = tensors(&folder(server.id()));
    assert!(
        shared.len() >= 3,
        "{shared:?}: one of the server, two of the worker"
    );
    assert!(shared.is_subset(&tensors(&folder(worker))));
    assert!(!tensors(&folder(child)).is_disjoint(&shared));
    server.signal("KILL");
    server.wait();
    are_gone(&ended);
    eventually("the name is gone", || (!named.exists()).then_some(()));
    eventually("nobody has the memory of tensors", || {
        processes()
            .all(|process| tensors(&process).is_disjoint(&shared))
            .then_some(())
    });
    // What was not there before, and is of nobody that lives.
    let mut left = names();
    left.retain(|name| !before.contains(name));
    eventually("nothing is left in /dev/shm", || {
        let now = names();
        left.retain(|name| now.contains(name));
        if left.is_empty() {
            return Some(());
        }
        let used: BTreeSet<String> = processes()
            .flat_map(|process| files(&process))
            .filter_map(|(path, _)| path.strip_prefix("/dev/shm/").map(str::to_owned))
            .collect();
        left.is_subset(&used).then_some(())
    });
}
