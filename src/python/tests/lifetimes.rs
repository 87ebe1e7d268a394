//! Tests of tensors kept by handlers, and of objects left behind.

use std::{fs, sync::Arc};

use bytes::Bytes;

use super::support::{
    Folder, Instance, awaited, executes, executes_in, floats, group, handler, left, load_giving,
    load_into, outputs, text, until,
};
use crate::python::{HandlerTensor, Produced};

/// Bytes that report when they are dropped.
struct Watched {
    data: Vec<u8>,
    _mark: Arc<()>,
}

impl AsRef<[u8]> for Watched {
    fn as_ref(&self) -> &[u8] {
        &self.data
    }
}

fn watched() -> (HandlerTensor, Arc<()>) {
    let mark = Arc::new(());
    let data = Bytes::from_owner(Watched {
        data: vec![7; 100_000],
        _mark: Arc::clone(&mark),
    });
    (HandlerTensor::new("a", "BYTES", vec![1], data, false), mark)
}

#[test]
fn request_memory_goes_with_the_request_if_nobody_keeps_it() {
    let made = executes("memoryview(inputs[0])[0]\nreturn []");
    let (input, mark) = watched();
    outputs(made.run(&[input]));
    assert_eq!(Arc::strong_count(&mark), 1);
}

#[test]
fn a_kept_tensor_is_valid_in_later_calls_and_threads() {
    let made = executes(
        "import threading\nif inputs:\n    self.kept = inputs[0]\n    self.view = memoryview(inputs[0])[10:]\n    return []\nseen = []\ndef look():\n    seen.append(bytes(self.kept) == bytes([7]) * 100000 and self.view[0] == 7)\nthreads = [threading.Thread(target=look) for _ in range(4)]\nfor thread in threads: thread.start()\nfor thread in threads: thread.join()\nassert seen == [True] * 4, seen\nreturn []",
    );
    let (input, _) = watched();
    outputs(made.run(&[input]));
    for _ in 0..3 {
        outputs(made.run(&[]));
    }
}

#[test]
fn threads_of_a_handler_go_on_between_calls() {
    let folder = Folder::new();
    let out = folder.file("out.txt");
    let made = executes(&format!(
        "import threading, time\ndef work(tensor):\n    time.sleep(0.1)\n    open({out:?}, 'w').write(bytes(tensor).decode())\nthreading.Thread(target=work, args=(inputs[0],)).start()\nreturn []"
    ));
    let input = HandlerTensor::new("a", "BYTES", vec![1], Bytes::from_static(b"late"), false);
    outputs(made.run(&[input]));
    assert_eq!(awaited(&out), "late");
}

#[test]
fn what_is_replaced_is_freed() {
    let folder = Folder::new();
    let watch = folder.file("watch.py");
    fs::write(
        &watch,
        "import gc, weakref\nkept = {}\ndef watch(name, thing): kept[name] = weakref.ref(thing)\n",
    )
    .unwrap();
    // The registry of weak references is a module that all handlers share.
    let registry = format!(
        "import sys, importlib.util\nif '_test_watch' not in sys.modules:\n    spec = importlib.util.spec_from_file_location('_test_watch', {watch:?})\n    sys.modules['_test_watch'] = module = importlib.util.module_from_spec(spec)\n    spec.loader.exec_module(module)\nwatch = sys.modules['_test_watch'].watch\n"
    );
    let text_of = |number: usize| {
        format!(
            "{registry}\nimport helper\nclass Big: pass\nclass OvmsPythonModel:\n    def initialize(self, kwargs):\n        self.big = Big()\n        self.me = self\n        watch('model{number}', self)\n        watch('big{number}', self.big)\n        watch('class{number}', OvmsPythonModel)\n        watch('module{number}', sys.modules[__name__])\n        watch('helper{number}', helper)\n    def execute(self, inputs):\n        return []\n"
        )
    };
    let workers = group();
    let handlers = Folder::new().with("helper.py", "def function(): pass\nme = function\n");
    for number in 0..3 {
        handlers.write("model.py", &text_of(number));
        let loaded = load_into(&workers, handlers.file("model.py")).unwrap();
        outputs(Instance::new(&loaded).execute(&[], true));
        loaded.finalize();
        drop(loaded);
    }
    let look = Folder::new().with(
        "model.py",
        "import gc, sys\nfrom pyovms import Tensor\nclass OvmsPythonModel:\n    def execute(self, inputs):\n        gc.collect()\n        kept = sys.modules['_test_watch'].kept\n        alive = [name for name, reference in kept.items() if reference() is not None]\n        return [Tensor('out', repr((len(kept), alive)).encode())]\n",
    );
    let look = load_into(&workers, look.file("model.py")).unwrap();
    let outputs = outputs(Instance::new(&look).execute(&[], true));
    assert_eq!(text(&outputs[0]), "(15, [])");
}

#[test]
fn outputs_outlive_their_handler() {
    let made =
        executes("return [Tensor('out', bytes(range(256)) * 1000), Tensor('b', bytearray(b'x'))]");
    let out = made.outputs(&[floats("a", &[1], &[1.0])]);
    made.handler.finalize();
    drop(made);
    assert_eq!(out[0].bytes().len(), 256_000);
    assert_eq!(out[0].bytes()[..3], [0, 1, 2]);
    assert_eq!(out[1].bytes()[..], *b"x");
}

#[test]
fn a_handler_is_finalized_after_calls_whose_clients_have_left() {
    let folder = Folder::new();
    let (log, ends) = (folder.file("log"), folder.file("ends"));
    let made = handler(&format!(
        "import os, time\ndef note(text): open({log:?}, 'a').write(text + ' ')\nclass OvmsPythonModel:\n    def execute(self, inputs):\n        if inputs: return []\n        note('begun')\n        while not os.path.exists({ends:?}): time.sleep(0.01)\n        note('executed')\n        return []\n    def finalize(self): note('finalize')\n"
    ));
    let instance = Instance::new(&made.handler);
    let leaves = left(instance.asked(&[]), || log.exists());
    made.handler.group().runtime().block_on(leaves);
    std::thread::scope(|scope| {
        let ending = scope.spawn(|| made.handler.finalize());
        let input = [floats("a", &[1], &[0.0])];
        while Instance::new(&made.handler).called(&input, true).is_ok() {
            std::thread::yield_now();
        }
        fs::write(ends, "").unwrap();
        ending.join().unwrap();
    });
    assert_eq!(fs::read_to_string(log).unwrap(), "begun executed finalize ");
}

#[test]
fn a_handler_that_is_dropped_is_finalized_after_its_calls() {
    let folder = Folder::new();
    let (log, ends) = (folder.file("log"), folder.file("ends"));
    let made = handler(&format!(
        "import os, time\ndef note(text): open({log:?}, 'a').write(text + ' ')\nclass OvmsPythonModel:\n    def execute(self, inputs):\n        note('begun')\n        while not os.path.exists({ends:?}): time.sleep(0.01)\n        note('executed')\n        return []\n    def finalize(self): note('finalize')\n"
    ));
    let workers = Arc::clone(made.handler.group());
    let instance = Instance::new(&made.handler);
    let leaves = left(instance.asked(&[]), || log.exists());
    workers.runtime().block_on(leaves);
    drop((instance, made));
    // An order that was sent at once would be carried out before this one.
    outputs(executes_in(&workers, "return []").run(&[]));
    fs::write(ends, "").unwrap();
    let is_finalized = || fs::read_to_string(&log).unwrap().contains("finalize");
    workers.runtime().block_on(until(is_finalized));
    assert_eq!(
        fs::read_to_string(&log).unwrap(),
        "begun executed finalize "
    );
}

#[test]
fn a_worker_ends_with_its_handlers_whatever_goes_on_there() {
    let folder = Folder::new();
    let begun = folder.file("begun");
    let hangs = format!("        open({begun:?}, 'w').close()\n        time.sleep(1000)\n");
    for (rest, generates) in [
        (format!("    def execute(self, inputs):\n{hangs}"), false),
        (
            format!("    def execute(self, inputs):\n        yield []\n{hangs}"),
            true,
        ),
        (
            format!(
                "    def create_state(self): pass\n    def execute(self, inputs, state): return []\n    def destroy_state(self, state):\n{hangs}"
            ),
            false,
        ),
    ] {
        let _ = fs::remove_file(&begun);
        let made = handler(&format!("import time\nclass OvmsPythonModel:\n{rest}"));
        let link = made.handler.group().links().remove(0);
        let runtime = made.handler.group().runtime().clone();
        let instance = made.instance();
        if generates {
            let Ok(Produced::Generator(mut generator)) = instance.execute(&[], true) else {
                panic!("expected a generator");
            };
            assert!(instance.next(&mut generator).unwrap().is_some());
        } else if !made.handler.stateful() {
            runtime.block_on(left(instance.asked(&[]), || begun.exists()));
        }
        drop(instance);
        runtime.block_on(until(|| begun.exists()));
        drop(made);
        runtime.block_on(until(|| link.ended_how().is_some()));
    }
}

/// Returns what a second node sees of the results of a first, which runs this code with `n` as the number of the call.
fn seen_of(code: &str, calls: usize) -> Vec<String> {
    let lines: String = code.lines().map(|line| format!("    {line}\n")).collect();
    let first = format!(
        "import array\nimport numpy as np\nfrom pyovms import Tensor\nclass OvmsPythonModel:\n  n = -1\n  \
         def execute(self, inputs):\n    self.n += 1\n    n = self.n\n{lines}"
    );
    let second = "import numpy as np\nfrom pyovms import Tensor\nclass OvmsPythonModel:\n  \
                  def execute(self, inputs):\n    seen = [np.asarray(it) for it in inputs]\n    \
                  places = [str(it.ctypes.data) for it in seen]\n    \
                  looks = [f'{it.flat[0]} {it.flat[-1]} {it.shape} {it.dtype}' for it in seen]\n    \
                  return [Tensor('out', '|'.join(looks).encode()), Tensor('a', ' '.join(places).encode())]\n";
    let group = group();
    let folder = Folder::new()
        .with("first.py", &first)
        .with("second.py", second);
    let first = load_giving(&group, folder.file("first.py"), false).unwrap();
    let second = load_into(&group, folder.file("second.py")).unwrap();
    let instance = Instance::new(&first);
    let given: Vec<_> = (0..calls)
        .map(|_| outputs(instance.execute(&[], true)))
        .collect();
    let seen = outputs(Instance::new(&second).execute(&given.concat(), true));
    seen.iter().map(|it| text(it).to_owned()).collect()
}

#[test]
fn another_node_sees_what_was_in_a_buffer_when_it_was_returned() {
    for (make, view) in [
        ("bytearray(4)", "buf"),
        ("bytearray(100_000)", "memoryview(buf)"),
        ("array.array('B', bytes(100_000))", "buf"),
        ("np.zeros(4, np.uint8)", "buf"),
        ("np.zeros(100_000, np.uint8)", "buf"),
        ("np.zeros((2, 50_000), np.uint8)", "buf.reshape(100_000)"),
        ("np.zeros(100_000, np.uint8)", "Tensor('inner', buf)"),
        ("bytearray(100_000)", "np.frombuffer(buf, np.uint8)"),
    ] {
        let code = format!(
            "buf = self.__dict__.setdefault('buf', {make})\nlast = memoryview(buf).cast('B')\n\
             last[0] = last[-1] = n\nreturn [Tensor('out', {view})]"
        );
        let length = if make.contains("(4") { 4 } else { 100_000 };
        let expected: Vec<_> = (0..3)
            .map(|n| format!("{n} {n} ({length},) uint8"))
            .collect();
        assert_eq!(seen_of(&code, 3)[0], expected.join("|"), "{make} {view}");
    }
    // Elements stay what they are, in C order.
    let strided = "buf = self.__dict__.setdefault('buf', np.zeros((3, 4), np.int16))\nbuf[:] = n\nbuf[0, 1] = 7\n\
                   return [Tensor('out', buf.T[1:])]";
    assert_eq!(seen_of(strided, 2)[0], "7 0 (3, 3) int16|7 1 (3, 3) int16");
}

#[test]
fn what_nobody_else_can_write_to_is_not_copied() {
    for make in [
        "np.full(100_000, 3, np.uint8)",
        "np.full((2, 50_000), 3, np.uint8).reshape(100_000)",
        "array.array('B', bytes(100_000))",
        "bytes(100_000)",
        "memoryview(self.__dict__.setdefault('kept', bytes(100_000)))",
    ] {
        let code = format!(
            "data = {make}\nplace = np.frombuffer(data, np.uint8).ctypes.data\n\
             return [Tensor('out', data), Tensor('a', np.array([place]))]"
        );
        let seen = seen_of(&code, 1);
        let place = seen[0].rsplit('|').next().unwrap();
        let place = place.split(' ').next().unwrap();
        assert_eq!(seen[1].split(' ').next(), Some(place), "{make}: {seen:?}");
    }
}
