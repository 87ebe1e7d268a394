//! Tests of handlers that yield.

use std::{
    fs,
    sync::atomic::{AtomicUsize, Ordering},
};

use super::support::{
    Folder, Instance, Made, awaited, executes, executes_in, group_of, handler, in_time, is_apart,
    left, text, until,
};
use crate::python::{HandlerGenerator, Produced, Raised, WorkerOptions};

fn generator(instance: &Instance) -> HandlerGenerator {
    match instance.execute(&[], true) {
        Ok(Produced::Generator(generator)) => generator,
        other => panic!("expected a generator, got {other:?}"),
    }
}

/// Runs a generator to its end.
fn all(made: &Made) -> (Vec<String>, Option<Raised>) {
    let instance = made.instance();
    let mut generator = generator(&instance);
    let mut sets = Vec::new();
    loop {
        match instance.next(&mut generator) {
            Ok(Some(set)) => sets.push(set.iter().map(text).collect::<Vec<_>>().join(",")),
            Ok(None) => {
                assert!(matches!(instance.next(&mut generator), Ok(None)));
                return (sets, None);
            }
            Err(raised) => {
                assert!(matches!(instance.next(&mut generator), Ok(None)));
                return (sets, Some(raised));
            }
        }
    }
}

#[test]
fn sets_come_one_after_the_other() {
    let made = executes(
        "for n in range(4):\n    yield [Tensor('out', str(n).encode()), Tensor('b', b'x')][:1 + n % 2]",
    );
    let (sets, raised) = all(&made);
    assert_eq!(sets, ["0", "1,x", "2", "3,x"]);
    assert_eq!(raised, None);
    assert_eq!(all(&executes("return\nyield")).0, [""; 0]);
    assert_eq!(all(&executes("yield []\nyield []")).0, ["", ""]);
}

#[test]
fn nothing_runs_before_the_first_step() {
    let made = executes("self.ran = True\nyield []");
    let instance = made.instance();
    let generator = generator(&instance);
    drop(generator);
}

#[test]
fn any_iterator_will_do() {
    assert_eq!(
        all(&executes("return iter([[Tensor('out', b'a')]])")).0,
        ["a"]
    );
    assert_eq!(
        all(&executes(
            "return map(lambda n: [Tensor('out', n)], [b'a', b'b'])"
        ))
        .0,
        ["a", "b"]
    );
    assert_eq!(
        all(&executes("class I:\n    n = 0\n    def __iter__(self): return self\n    def __next__(self):\n        self.n += 1\n        if self.n > 2: raise StopIteration\n        return [Tensor('out', str(self.n).encode())]\nreturn I()")).0,
        ["1", "2"]
    );
}

#[test]
fn an_exception_comes_after_the_sets_before_it() {
    for (end, reported) in [
        ("raise ValueError('third')", "ValueError: third"),
        ("raise SystemExit(2)", "SystemExit: 2"),
        (
            "raise StopIteration",
            "RuntimeError: generator raised StopIteration",
        ),
    ] {
        let (sets, raised) = all(&executes(&format!(
            "yield [Tensor('out', b'1')]\nyield [Tensor('out', b'2')]\n{end}"
        )));
        assert_eq!(sets, ["1", "2"]);
        assert_eq!(raised.unwrap().to_string(), reported);
    }
}

#[test]
fn what_is_no_list_of_tensors_is_a_error() {
    for (value, reported) in [
        (
            "None",
            "execute must yield lists of pyovms.Tensor; it yielded NoneType",
        ),
        (
            "Tensor('a', b'')",
            "execute must yield lists of pyovms.Tensor; it yielded Tensor",
        ),
        (
            "(Tensor('a', b''),)",
            "execute must yield lists of pyovms.Tensor; it yielded tuple",
        ),
        (
            "[5]",
            "execute must yield lists of pyovms.Tensor; element 0 of the list is int",
        ),
    ] {
        let (sets, raised) = all(&executes(&format!(
            "yield [Tensor('out', b'1')]\nyield {value}\nyield []"
        )));
        assert_eq!(sets, ["1"]);
        assert_eq!(
            raised.unwrap().to_string(),
            format!("TypeError: {reported}")
        );
    }
}

#[test]
fn what_a_generator_returns_is_an_error() {
    for (value, kind) in [
        ("[Tensor('out', b'2')]", "list"),
        ("5", "int"),
        ("()", "tuple"),
    ] {
        let (sets, raised) = all(&executes(&format!(
            "yield [Tensor('out', b'1')]\nreturn {value}"
        )));
        assert_eq!(sets, ["1"]);
        let expected = format!(
            "TypeError: a generator returned a value of type {kind}, which nobody gets; yield it"
        );
        assert_eq!(raised.unwrap().to_string(), expected);
    }
    // There is nothing in these that anybody could miss.
    for value in ["None", "[]"] {
        let (sets, raised) = all(&executes(&format!("yield []\nreturn {value}")));
        assert_eq!((sets.len(), raised), (1, None), "{value}");
    }
}

fn closing(rest: &str) -> (Folder, Made) {
    let folder = Folder::new();
    let log = folder.file("log");
    let made = handler(&format!(
        "from pyovms import Tensor\nclass OvmsPythonModel:\n    def execute(self, inputs):\n        try:\n            while True:\n                yield [Tensor('out', b'x')]\n        except BaseException as error:\n            open({log:?}, 'w').write(type(error).__name__)\n            {rest}\n"
    ));
    (folder, made)
}

#[test]
fn a_dropped_generator_is_closed() {
    for rest in [
        "raise",
        "pass",
        "raise ValueError('in the end')",
        "yield []",
    ] {
        let (folder, made) = closing(rest);
        let instance = made.instance();
        let mut generator = generator(&instance);
        for _ in 0..3 {
            assert!(instance.next(&mut generator).unwrap().is_some());
        }
        drop(generator);
        assert_eq!(awaited(&folder.file("log")), "GeneratorExit");
    }
}

#[test]
fn a_generator_that_is_left_ends_within_its_limit() {
    static PANICS: AtomicUsize = AtomicUsize::new(0);
    // Panics of all threads of a process have one hook.
    if !is_apart("generators::a_generator_that_is_left_ends_within_its_limit") {
        return;
    }
    std::panic::set_hook(Box::new(|_| {
        PANICS.fetch_add(1, Ordering::Relaxed);
    }));
    let group = group_of(WorkerOptions {
        timeout_ms: Some(60_000),
        ..WorkerOptions::default()
    });
    let made = executes_in(&group, "while True: yield []");
    let instance = made.instance();
    let mut generator = generator(&instance);
    let set = instance.next(&mut generator);
    drop(generator);
    // Waits until nothing uses the handler.
    made.handler.finalize();
    drop(std::panic::take_hook());
    assert!(set.unwrap().is_some());
    assert_eq!(PANICS.load(Ordering::Relaxed), 0);
}

#[test]
fn a_handler_is_finalized_after_its_generators_are_closed() {
    let folder = Folder::new();
    let log = folder.file("log");
    let made = handler(&format!(
        "import time\nclass OvmsPythonModel:\n    def execute(self, inputs):\n        try:\n            while True: yield []\n        finally:\n            time.sleep(0.1)\n            open({log:?}, 'a').write('closed ')\n    def finalize(self): open({log:?}, 'a').write('finalized ')\n"
    ));
    let instance = made.instance();
    let mut generator = generator(&instance);
    instance.next(&mut generator).unwrap();
    drop(generator);
    made.handler.finalize();
    assert_eq!(fs::read_to_string(&log).unwrap(), "closed finalized ");
}

#[test]
fn generators_of_several_instances_are_interleaved() {
    let made = executes("for n in range(3):\n    yield [Tensor('out', str(n).encode())]");
    let (first, second) = (made.instance(), made.instance());
    let (mut a, mut b) = (generator(&first), generator(&second));
    for n in 0..3 {
        for (instance, generator) in [(&first, &mut a), (&second, &mut b)] {
            let set = instance.next(generator).unwrap().unwrap();
            assert_eq!(text(&set[0]), n.to_string());
        }
    }
}

#[test]
fn a_generator_that_was_given_before_its_client_has_left_is_closed() {
    let folder = Folder::new();
    let (begun, closed) = (folder.file("begun"), folder.file("closed"));
    let made = executes(&format!(
        "open({begun:?}, 'w').close()\ntry:\n    while True: yield []\nfinally: open({closed:?}, 'w').write('closed')"
    ));
    let instance = made.instance();
    let group = made.handler.group();
    let link = group.links().remove(0);
    group.runtime().block_on(async {
        let mut call = Box::pin(instance.begun(&[]));
        assert!(futures::poll!(call.as_mut()).is_pending());
        // The answer is there, and nobody has taken it.
        until(|| begun.exists() && link.busy() == 0).await;
        drop(call);
    });
    assert_eq!(awaited(&closed), "closed");
    group.runtime().block_on(until(|| link.nodes().is_empty()));
}

#[test]
fn a_generator_that_nobody_may_have_is_not_kept() {
    let made = handler(
        "import weakref\nfrom pyovms import Tensor\nclass Sets:\n    def __iter__(self): return self\n    def __next__(self): raise StopIteration\nclass OvmsPythonModel:\n    def execute(self, inputs):\n        if hasattr(self, 'kept'): return [Tensor('out', str(self.kept()).encode())]\n        sets = Sets()\n        self.kept = weakref.ref(sets)\n        return sets\n",
    );
    let instance = made.instance();
    let ask = || made.handler.group().runtime().block_on(instance.asked(&[]));
    assert!(matches!(ask(), Ok(Produced::Generator(_))));
    match ask() {
        Ok(Produced::Outputs(outputs)) => assert_eq!(text(&outputs[0]), "None"),
        other => panic!("expected outputs, got {other:?}"),
    }
}

#[test]
fn a_generator_is_given_before_its_first_step_ends() {
    let folder = Folder::new();
    let ends = folder.file("ends");
    // Long enough for another thread to wait for orders meanwhile.
    let made = executes(&format!(
        "import os, time\ntime.sleep(0.05)\ndef steps():\n    while not os.path.exists({ends:?}): time.sleep(0.01)\n    yield []\nreturn steps()"
    ));
    let instance = made.instance();
    let given = in_time(instance.begun(&[]));
    let Ok(Produced::Generator(mut generator)) = made.handler.group().runtime().block_on(given)
    else {
        panic!("expected a generator");
    };
    fs::write(ends, "").unwrap();
    assert!(instance.next(&mut generator).unwrap().is_some());
}

#[test]
fn a_step_that_does_not_end_counts_among_the_calls() {
    let folder = Folder::new();
    let (begun, ends) = (folder.file("begun"), folder.file("ends"));
    let made = executes(&format!(
        "import os, time\nyield []\nopen({begun:?}, 'w').close()\nwhile not os.path.exists({ends:?}): time.sleep(0.01)"
    ));
    let group = made.handler.group();
    let link = group.links().remove(0);
    let instance = made.instance();
    let mut steps = generator(&instance);
    group.runtime().block_on(until(|| link.busy() == 0));
    assert!(instance.next(&mut steps).unwrap().is_some());
    assert_eq!(link.busy(), 1, "it may go on");
    group.runtime().block_on(until(|| begun.exists()));
    drop(steps);
    assert_eq!((link.busy(), group.seat(false).load().0), (1, 1));
    fs::write(&ends, "").unwrap();
    group.runtime().block_on(until(|| link.busy() == 0));
    // One that is left in its call counts once.
    fs::remove_file(&ends).unwrap();
    fs::remove_file(&begun).unwrap();
    let waits = executes(&format!(
        "import os, time\nopen({begun:?}, 'w').close()\nwhile not os.path.exists({ends:?}): time.sleep(0.01)\nreturn iter([[]])"
    ));
    let group = waits.handler.group();
    let link = group.links().remove(0);
    let instance = waits.instance();
    let leaves = left(instance.begun(&[]), || begun.exists());
    group.runtime().block_on(leaves);
    assert_eq!(link.busy(), 1);
    fs::write(&ends, "").unwrap();
    let closed = until(|| link.busy() == 0 && link.nodes().is_empty());
    group.runtime().block_on(closed);
}
