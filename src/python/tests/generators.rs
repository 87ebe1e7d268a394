//! Tests of handlers that yield.

use std::fs;

use super::support::{Folder, Instance, Made, awaited, executes, handler, text};
use crate::python::{HandlerGenerator, Produced, Raised};

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
