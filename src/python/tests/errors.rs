//! Tests of exceptions of any kind.

use super::support::{executes, floats, handler, in_time, outputs, text};

#[test]
fn kind_message_and_traceback_are_reported() {
    let raised = executes("int('x')").fails(&[]);
    assert_eq!(raised.kind, "ValueError");
    assert_eq!(
        raised.message,
        "invalid literal for int() with base 10: 'x'"
    );
    assert!(
        raised.traceback.contains("in execute"),
        "{}",
        raised.traceback
    );
    assert!(
        raised.traceback.contains("int('x')"),
        "{}",
        raised.traceback
    );
    assert_eq!(
        raised.to_string(),
        "ValueError: invalid literal for int() with base 10: 'x'"
    );
}

#[test]
fn a_chain_of_exceptions_is_in_the_traceback() {
    let raised = executes("try:\n    1 / 0\nexcept ZeroDivisionError as error:\n    raise KeyError('second') from error").fails(&[]);
    assert_eq!(raised.to_string(), "KeyError: 'second'");
    assert!(raised.traceback.contains("ZeroDivisionError"));
}

#[test]
fn exits_are_exceptions() {
    for (body, reported) in [
        ("import sys\nsys.exit(3)", "SystemExit: 3"),
        ("import sys\nsys.exit()", "SystemExit"),
        ("raise SystemExit", "SystemExit"),
        ("raise KeyboardInterrupt('now')", "KeyboardInterrupt: now"),
        ("raise GeneratorExit", "GeneratorExit"),
        ("raise BaseException('base')", "BaseException: base"),
        ("raise StopIteration(5)", "StopIteration: 5"),
        ("raise MemoryError", "MemoryError"),
    ] {
        assert_eq!(executes(body).fails(&[]).to_string(), reported);
    }
}

#[test]
fn texts_that_are_not_utf_8_are_escaped() {
    assert_eq!(
        executes("raise ValueError('a\\udcffb')").fails(&[]).message,
        "a\\udcffb"
    );
    assert_eq!(
        executes("raise ValueError(b'\\xff\\xfe')")
            .fails(&[])
            .message,
        "b'\\xff\\xfe'"
    );
    assert_eq!(
        executes("raise ValueError('zero \\0 and ł 🎉')")
            .fails(&[])
            .message,
        "zero \0 and ł 🎉"
    );
    assert_eq!(
        executes("b'\\xff'.decode()").fails(&[]).message,
        "'utf-8' codec can't decode byte 0xff in position 0: invalid start byte"
    );
}

#[test]
fn long_texts_are_cut() {
    let raised = executes("raise ValueError('é' * 10000000)").fails(&[]);
    assert_eq!(
        raised.message.chars().take_while(|c| *c == 'é').count(),
        4096
    );
    assert!(
        raised.message.ends_with("… (9995904 more characters)"),
        "{}",
        &raised.message[8000..]
    );
    assert!(raised.traceback.len() < 100_000);
}

#[test]
fn deep_recursion_is_an_exception() {
    let raised = executes("def f(): f()\nf()").fails(&[]);
    assert_eq!(raised.kind, "RecursionError");
    assert!(raised.traceback.len() < 20_000);
}

#[test]
fn a_call_has_as_much_stack_as_a_thread_of_python() {
    // Each of them is a call of C within the one before it.
    let body = "import sys\nclass Deep:\n  def __getattr__(self, name):\n    left = int(name[1:])\n    \
                return getattr(self, f'a{left - 1}') if left else b'deep'\n\
                limit = sys.getrecursionlimit()\nsys.setrecursionlimit(20000)\n\
                try: return [Tensor('out', Deep().a5000)]\nfinally: sys.setrecursionlimit(limit)";
    assert_eq!(text(&executes(body).outputs(&[])[0]), "deep");
}

#[test]
fn a_call_that_panics_ends_with_its_worker() {
    // What it makes of a panic is known to Python from the first exception on that it has taken.
    let made = executes(
        "if inputs: raise ValueError\nkinds = BaseException.__subclasses__()\n\
         raise next(kind for kind in kinds if kind.__name__ == 'PanicException')('panic')",
    );
    assert_eq!(made.fails(&[floats("a", &[1], &[1.0])]).kind, "ValueError");
    let instance = made.instance();
    let runtime = made.handler.group().runtime();
    let error = runtime.block_on(in_time(instance.asked(&[]))).unwrap_err();
    let ended = "worker of graph test was killed by SIGABRT in node node";
    assert_eq!(error.to_string(), ended);
}

#[test]
fn exceptions_that_cannot_be_reported_are_named() {
    let raised =
        executes("class E(Exception):\n    def __str__(self): raise SystemExit(1)\nraise E")
            .fails(&[]);
    assert_eq!(raised.to_string(), "E: <its str() raised SystemExit>");
    let raised =
        executes("class E(Exception):\n    def __str__(self): return 5\nraise E").fails(&[]);
    assert_eq!(raised.to_string(), "E: <its str() raised TypeError>");
    let raised = executes(
        "class E(Exception):\n    def __getattribute__(self, name): raise ValueError\nraise E('x')",
    )
    .fails(&[]);
    assert_eq!(raised.kind, "E");
}

#[test]
fn groups_of_exceptions_are_exceptions() {
    let raised =
        executes("raise ExceptionGroup('several', [ValueError(1), TypeError(2)])").fails(&[]);
    assert_eq!(
        raised.to_string(),
        "ExceptionGroup: several (2 sub-exceptions)"
    );
}

#[test]
fn the_inputs_of_a_failed_call_are_released() {
    let made = executes("kept = inputs[0]\nraise ValueError(kept)");
    let input = floats("a", &[1], &[1.0]);
    let bytes = input.bytes().clone();
    made.fails(std::slice::from_ref(&input));
    drop(input);
    outputs(executes("import gc\ngc.collect()\nreturn []").run(&[]));
    assert!(bytes.try_into_mut().is_ok(), "somebody still has the input");
}

#[test]
fn an_exception_in_a_thread_of_a_handler_stays_there() {
    let made = handler(
        "import threading\nclass OvmsPythonModel:\n    def execute(self, inputs):\n        def work(): raise SystemExit(1)\n        thread = threading.Thread(target=work)\n        thread.start()\n        thread.join()\n        return []\n",
    );
    assert!(made.outputs(&[]).is_empty());
}
