//! Tests of workers that die, hang, or are left by their clients.

use std::{fs, sync::Arc, task::Poll, thread, time::Duration};

use bytes::Bytes;
use pyovms::message::{Instance as Numbers, Order};
use tokio::{sync::Semaphore, task::coop::unconstrained};

use super::support::{
    Folder, Instance, executes, executes_in, group, group_of, handler, in_time, load_giving,
    load_into, outputs, text, until,
};
use crate::{
    diagnostic::FilePosition,
    python::{HandlerTensor, PythonEnvironment, WorkerGroup, WorkerOptions, error::HandlerError},
};

fn large(name: &str) -> HandlerTensor {
    let bytes = Bytes::from(vec![7; 10 << 20]);
    HandlerTensor::new(name, "UINT8", vec![10 << 20], bytes, true)
}

#[test]
fn a_worker_that_dies_while_another_loads_a_handler_has_that_handler_too() {
    let folder = Folder::new();
    let first = "import os\nfrom pyovms import Tensor\nclass OvmsPythonModel:\n  \
                 def initialize(self, kwargs):\n    with open(__file__ + '.pids', 'a') as file: file.write(f'{os.getpid()}\\n')\n  \
                 def execute(self, inputs): return [Tensor('out', str(os.getpid()).encode())]\n";
    folder.write("first.py", first);
    // In the second worker it ends the first one, and gives another one time to come.
    let second = "import os, signal, time\nfrom pyovms import Tensor\nclass OvmsPythonModel:\n  \
                  def initialize(self, kwargs):\n    path = os.path.join(os.path.dirname(__file__), 'first.py.pids')\n    \
                  pids = open(path).read().split()\n    \
                  if len(pids) != 2 or pids[1] != str(os.getpid()): return\n    \
                  os.kill(int(pids[0]), signal.SIGKILL)\n    end = time.monotonic() + 1\n    \
                  while len(open(path).read().split()) < 3 and time.monotonic() < end: time.sleep(0.01)\n  \
                  def execute(self, inputs): return [Tensor('out', str(os.getpid()).encode())]\n";
    folder.write("second.py", second);
    let group = group_of(WorkerOptions {
        workers: Some(2),
        ..WorkerOptions::default()
    });
    let first = load_into(&group, folder.file("first.py")).unwrap();
    let second = load_into(&group, folder.file("second.py")).unwrap();
    let all = async {
        while group.links().iter().filter(|link| link.is_alive()).count() < 2 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    group.runtime().block_on(in_time(all));
    let runs = [(); 2].map(|()| group.seat(true));
    let answers = runs.map(|seat| {
        [&first, &second].map(|handler| {
            let instance = Instance::at(handler, &seat);
            text(&outputs(instance.execute(&[], true))[0]).to_owned()
        })
    });
    for [one, other] in &answers {
        assert_eq!(one, other);
    }
    assert_ne!(answers[0], answers[1]);
    let pids = fs::read_to_string(folder.file("first.py.pids")).unwrap();
    assert_eq!(pids.lines().count(), 3, "{pids}");
}

#[test]
fn inputs_of_calls_that_were_never_sent_are_given_back() {
    let group = group();
    let made = executes_in(&group, "return []");
    let inputs = [large("a"), large("b")];
    for polls in 1..40 {
        let instance = Instance::new(&made.handler);
        let left = async {
            let mut call = std::pin::pin!(instance.begun(&inputs));
            for _ in 0..polls {
                if futures::poll!(call.as_mut()).is_ready() {
                    break;
                }
                tokio::task::yield_now().await;
            }
        };
        group.runtime().block_on(left);
    }
    outputs(made.run(&inputs));
    // What is kept for the next tensors, once calls that were sent have ended.
    let given_back = async {
        while group.charged_inputs() > 96 << 20 {
            Instance::new(&made.handler).begun(&inputs).await.unwrap();
        }
    };
    group.runtime().block_on(in_time(given_back));
}

#[test]
fn outputs_before_one_that_is_none_are_given_back() {
    let count = "len([line for line in open('/proc/self/maps') if 'memfd:ovms tensors' in line])";
    let made = executes(&format!(
        "import pyovms\nif len(inputs) == 1: return [Tensor('out', str({count}).encode())]\nreturn [pyovms.empty('out', [2000000], 'UINT8'), Tensor('a', bytes(2000000)), 'none']"
    ));
    for _ in 0..30 {
        let raised = made.fails(&[]).to_string();
        assert!(raised.contains("element 2 of the list is"), "{raised}");
    }
    let input = HandlerTensor::new("a", "UINT8", vec![1], Bytes::from_static(b"1"), true);
    let maps: usize = text(&made.outputs(&[input])[0]).parse().unwrap();
    assert!(maps < 12, "{maps}");
}

#[test]
fn a_call_that_holds_python_makes_no_threads() {
    let made = executes(
        "import os, ctypes\nif inputs: ctypes.PyDLL(None).usleep(500000)\nreturn [Tensor('out', str(len(os.listdir('/proc/self/task'))).encode())]",
    );
    let input = HandlerTensor::new("a", "UINT8", vec![1], Bytes::from_static(b"1"), true);
    thread::scope(|scope| {
        let calls = [(); 3].map(|()| scope.spawn(|| made.outputs(std::slice::from_ref(&input))));
        for call in calls {
            call.join().unwrap();
        }
    });
    let threads: usize = text(&made.outputs(&[])[0]).parse().unwrap();
    assert!(threads < 12, "{threads}");
}

#[test]
fn a_destroy_state_that_does_not_end_has_the_limit_of_a_call() {
    let folder = Folder::new().with(
        "model.py",
        "import time\nclass OvmsPythonModel:\n  def create_state(self): return 1\n  \
         def execute(self, inputs, state=None): return []\n  def destroy_state(self, state): time.sleep(1000)\n",
    );
    for way in ["closed", "dropped", "left while it is closed"] {
        let group = group_of(WorkerOptions {
            timeout_ms: Some(200),
            ..WorkerOptions::default()
        });
        let handler = load_into(&group, folder.file("model.py")).unwrap();
        let instance = Instance::new(&handler);
        instance.open().unwrap();
        outputs(instance.execute(&[], true));
        let link = group.links().remove(0);
        let runtime = group.runtime().clone();
        match way {
            "closed" => instance.close(),
            "dropped" => {}
            _ => runtime.block_on(async {
                let closing = futures::poll!(std::pin::pin!(instance.closing()));
                assert!(closing.is_pending());
            }),
        }
        drop(instance);
        let ended = async {
            while link.ended_how().is_none() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        runtime.block_on(in_time(ended));
        let death = link.death("node").to_string();
        assert!(death.contains("was killed after 200 ms"), "{way}: {death}");
    }
}

#[test]
fn a_worker_that_does_not_read_has_a_bound_of_calls() {
    let group = group();
    let made = executes_in(&group, "return []");
    let link = group.links().remove(0);
    let pid = rustix::process::Pid::from_raw(link.pid().cast_signed()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::STOP).unwrap();
    let begin = || {
        let close = |call| {
            Order::Close(Numbers {
                call,
                node: 1,
                instance: 1,
            })
        };
        link.begin("node", None, None, close).unwrap().1
    };
    let mut begun = Vec::new();
    while link.has_room("node").is_ok() {
        begun.push(begin());
        assert!(begun.len() < 5000, "there is a bound");
    }
    assert_eq!(begun.len(), 1024);
    let refused = Instance::new(&made.handler).called(&[], true).unwrap_err();
    // What ends a state is not refused.
    begun.push(begin());
    assert!(matches!(refused, HandlerError::Memory(..)), "{refused}");
    assert_eq!(
        refused.to_string(),
        "Server is overloaded - worker of graph test has 1024 calls that have not ended; node node was not called"
    );
    rustix::process::kill_process(pid, rustix::process::Signal::CONT).unwrap();
    for answer in begun {
        let answer = group.runtime().block_on(in_time(answer));
        answer.unwrap().unwrap();
    }
    outputs(made.run(&[]));
}

#[test]
fn calls_of_a_graph_take_no_place_of_another_one() {
    let [busy, other] = [group(), group()];
    let own = Arc::new(Semaphore::new(Semaphore::MAX_PERMITS));
    let places = async {
        let mut held = Vec::new();
        // Not as many as a task may take at once, but all.
        while let Poll::Ready(place) =
            futures::poll!(std::pin::pin!(unconstrained(busy.place(&own))))
        {
            held.push(place);
            assert!(held.len() <= 100_000, "there is a bound");
        }
        assert_eq!(held.len(), 256);
        in_time(other.place(&own)).await;
        held.pop();
        in_time(busy.place(&own)).await;
    };
    busy.runtime().block_on(places);
}

#[test]
fn a_call_that_was_left_and_raises_leaves_no_generator() {
    let made = handler(
        "import os, time\nclass OvmsPythonModel:\n  def execute(self, inputs):\n    open(__file__ + '.begun', 'w').write('yes')\n    \
         while not os.path.exists(__file__ + '.ends'): time.sleep(0.01)\n    raise ValueError('no')\n",
    );
    let instance = Instance::new(&made.handler);
    let group = made.handler.group();
    let left = async {
        let call = instance.begun(&[]);
        let begun = async {
            while !made.folder.file("model.py.begun").exists() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::select! {
            _ = call => panic!("it ends when it may"),
            () = in_time(begun) => {}
        }
    };
    group.runtime().block_on(left);
    let link = group.links().remove(0);
    assert!(!link.nodes().is_empty());
    fs::write(made.folder.file("model.py.ends"), "").unwrap();
    let ended = async {
        while !link.nodes().is_empty() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    group.runtime().block_on(in_time(ended));
}

#[test]
fn a_worker_that_dies_as_its_load_ends_fails_that_or_is_replaced() {
    // The first process ends soon after `initialize`, in the midst of what follows.
    let code = "import os, sys, threading\nfrom pyovms import Tensor\nclass OvmsPythonModel:\n  \
                def initialize(self, kwargs):\n    path = __file__ + '.was'\n    \
                if os.path.exists(path): return\n    open(path, 'w').close()\n    \
                threading.Timer(DELAY, os._exit, [3]).start()\n  \
                def execute(self, inputs): return [Tensor('out', b'fine')]\n";
    for delay in 0..12 {
        let code = code.replace("DELAY", &format!("{delay} / 4000"));
        let folder = Folder::new().with("model.py", &code);
        let handler = match folder.load("model.py") {
            Ok(handler) => handler,
            Err(error) => {
                let error = error.to_string();
                assert!(error.contains("ended with status 3"), "{error}");
                continue;
            }
        };
        let group = handler.group();
        let fine = async {
            while Instance::new(&handler).begun(&[]).await.is_err() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        group.runtime().block_on(in_time(fine));
    }
}

/// Kills the only worker, and waits for the next one.
fn replace(group: &WorkerGroup) {
    let link = group.links().remove(0);
    let pid = rustix::process::Pid::from_raw(link.pid().cast_signed()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    let is_there = || {
        let links = group.links();
        links.iter().any(|it| it.pid() != link.pid())
    };
    group.runtime().block_on(until(is_there));
}

#[test]
fn a_tensor_that_has_died_with_its_worker_is_no_input() {
    let group = group();
    let folder = Folder::new()
        .with(
            "first.py",
            "from pyovms import Tensor\nclass OvmsPythonModel:\n  def execute(self, inputs): return [Tensor('out', b'some'), Tensor('a', bytes(100_000))]\n",
        )
        .with(
            "second.py",
            "from pyovms import Tensor\nclass OvmsPythonModel:\n  def execute(self, inputs): return [Tensor('out', str([len(bytes(it)) for it in inputs]).encode())]\n",
        );
    let first = load_giving(&group, folder.file("first.py"), false).unwrap();
    let second = load_into(&group, folder.file("second.py")).unwrap();
    let given = outputs(Instance::new(&first).execute(&[], true));
    assert!(given.iter().all(|tensor| tensor.bytes().is_empty()));
    let taken = outputs(Instance::new(&second).execute(&given, true));
    assert_eq!(text(&taken[0]), "[4, 100000]");
    replace(&group);
    let lost = Instance::new(&second).called(&given, true).unwrap_err();
    assert!(matches!(lost, HandlerError::Worker(_)), "{lost}");
    assert_eq!(
        lost.to_string(),
        "worker of graph test has ended, which alone had the contents of tensor \"out\""
    );
    // Those that have come are copied.
    let given = outputs(Instance::new(&second).execute(&[], true));
    replace(&group);
    let taken = outputs(Instance::new(&second).execute(&given, true));
    assert_eq!(text(&taken[0]), "[2]");
}

#[test]
fn calls_that_wait_for_a_place_have_the_worker_that_is_there_then() {
    for state in ["", "  def create_state(self): pass\n"] {
        let made = handler(&format!(
            "class OvmsPythonModel:\n{state}  def execute(self, inputs, state=None): return []\n"
        ));
        let group = made.handler.group();
        let places = made.handler.places();
        let all = u32::try_from(places.available_permits()).unwrap();
        let held = group.runtime().block_on(places.acquire_many(all)).unwrap();
        let instance = Instance::new(&made.handler);
        let mut call = Box::pin(async {
            instance.opening().await?;
            instance.begun(&[]).await
        });
        let polled = group
            .runtime()
            .block_on(async { futures::poll!(call.as_mut()) });
        assert!(polled.is_pending());
        replace(group);
        drop(held);
        group.runtime().block_on(in_time(call)).unwrap();
    }
}

#[test]
fn calls_that_wait_for_a_worker_leave_the_places_to_others() {
    let folder = Folder::new();
    let (again, go) = (folder.file("again"), folder.file("go"));
    let made = handler(&format!(
        "import os, time\nclass OvmsPythonModel:\n  def initialize(self, kwargs):\n    while os.path.exists({again:?}) and not os.path.exists({go:?}): time.sleep(0.01)\n  def execute(self, inputs): return []\n"
    ));
    let (group, places) = (made.handler.group(), made.handler.places());
    let all = places.available_permits();
    fs::write(again, "").unwrap();
    let link = group.links().remove(0);
    link.kill("was killed".to_owned());
    group.runtime().block_on(until(|| !link.is_alive()));
    let instances: Vec<_> = (0..2).map(|_| Instance::new(&made.handler)).collect();
    group.runtime().block_on(async {
        let mut calls: Vec<_> = instances.iter().map(|it| Box::pin(it.begun(&[]))).collect();
        for call in &mut calls {
            assert!(futures::poll!(call.as_mut()).is_pending());
        }
        assert_eq!(places.available_permits(), all);
    });
    fs::write(go, "").unwrap();
    let serves = async {
        while Instance::new(&made.handler).begun(&[]).await.is_err() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    group.runtime().block_on(in_time(serves));
}

#[test]
fn a_handler_that_fails_in_a_worker_is_finalized_in_those_before() {
    let folder = Folder::new();
    let log = folder.file("log");
    folder.write(
        "model.py",
        &format!(
            "import os\ndef note(text): open({log:?}, 'a').write(f'{{text}} {{os.getpid()}}\\n')\nclass OvmsPythonModel:\n  \
             def initialize(self, kwargs):\n    note('initialize')\n    if open({log:?}).read().count('initialize') == 3: raise ValueError('the third')\n  \
             def execute(self, inputs): return []\n  def finalize(self): note('finalize')\n"
        ),
    );
    let group = group_of(WorkerOptions {
        workers: Some(3),
        ..WorkerOptions::default()
    });
    let error = load_into(&group, folder.file("model.py")).unwrap_err();
    assert!(error.to_string().contains("the third"), "{error}");
    let log = fs::read_to_string(log).unwrap();
    let of = |step: &str| {
        let lines = log.lines().filter_map(|line| line.strip_prefix(step));
        lines.collect::<std::collections::BTreeSet<_>>()
    };
    assert_eq!(of("finalize").len(), 3, "{log}");
    assert_eq!(of("finalize"), of("initialize"), "{log}");
}

#[test]
fn a_search_path_may_be_no_text() {
    let environment = tempfile::tempdir().unwrap();
    let known = std::env::var_os("OPENVINO_INSTALL_DIR").map(std::path::PathBuf::from);
    let python = known
        .map(|folder| folder.join("bin/python"))
        .filter(|it| it.exists());
    let python = python.unwrap_or_else(|| "python3".into());
    let mut command = std::process::Command::new(python);
    command
        .args(["-m", "venv", "--without-pip"])
        .arg(environment.path());
    assert!(command.status().unwrap().success());
    let folders = fs::read_dir(environment.path().join("lib")).unwrap();
    let folder = folders.flatten().next().unwrap().path();
    fs::write(
        folder.join("site-packages/odd.pth"),
        "import sys; sys.path += ['/nowhere/\\udcff', b'bytes', 5]\n",
    )
    .unwrap();
    let group = group_of(WorkerOptions {
        environment: Some(PythonEnvironment {
            folder: environment.path().to_owned(),
            file: "config.json".to_owned(),
            place: FilePosition::default(),
        }),
        ..WorkerOptions::default()
    });
    let made = executes_in(
        &group,
        "import sys\nreturn [Tensor('out', repr(sys.path[-4:]).encode())]",
    );
    let path = made.outputs(&[]);
    assert!(text(&path[0]).contains("b'bytes', 5"), "{}", text(&path[0]));
}
