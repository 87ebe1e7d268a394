//! Tests of valid and invalid results of `execute`.

use super::support::{executes, floats};
use crate::python::Produced;

#[test]
fn lists_of_tensors_are_outputs() {
    let made = executes("return [Tensor(name, name.encode()) for name in 'abc']");
    let names: Vec<_> = made
        .outputs(&[])
        .iter()
        .map(|out| out.name().to_owned())
        .collect();
    assert_eq!(names, ["a", "b", "c"]);
    assert!(executes("return []").outputs(&[]).is_empty());
    let derived = executes("class L(list): pass\nreturn L([Tensor('a', b'')])");
    assert_eq!(derived.outputs(&[]).len(), 1);
    let twice = executes("t = Tensor('a', b'')\nreturn [t, t]");
    assert_eq!(twice.outputs(&[]).len(), 2);
}

#[test]
fn none_is_allowed_if_inputs_are_missing() {
    let made = executes("pass");
    let instance = made.instance();
    assert!(matches!(
        instance.execute(&[], false),
        Ok(Produced::Nothing)
    ));
    let raised = instance.execute(&[], true).unwrap_err();
    assert_eq!(
        raised.to_string(),
        "TypeError: execute must return a list of pyovms.Tensor or a generator; it returned NoneType"
    );
}

#[test]
fn other_results_are_errors() {
    for (body, kind) in [
        ("return ()", "tuple"),
        ("return (Tensor('a', b''),)", "tuple"),
        ("return 5", "int"),
        ("return 'text'", "str"),
        ("return {}", "dict"),
        ("return Tensor('a', b'')", "Tensor"),
        ("return range(3)", "range"),
        ("async def f(): pass\nf().close()\nreturn f", "function"),
    ] {
        for complete in [true, false] {
            let raised = executes(body)
                .instance()
                .execute(&[], complete)
                .unwrap_err();
            assert_eq!(raised.kind, "TypeError");
            assert_eq!(
                raised.message,
                format!(
                    "execute must return a list of pyovms.Tensor or a generator; it returned {kind}"
                )
            );
        }
    }
}

#[test]
fn elements_that_are_no_tensors_are_errors() {
    for (body, index, kind) in [
        ("return [5]", 0, "int"),
        ("return [Tensor('a', b''), b'bytes']", 1, "bytes"),
        ("return [None]", 0, "NoneType"),
        ("return [[Tensor('a', b'')]]", 0, "list"),
    ] {
        let raised = executes(body).fails(&[]);
        assert_eq!(
            raised.to_string(),
            format!(
                "TypeError: execute must return a list of pyovms.Tensor; element {index} of the list is {kind}"
            )
        );
    }
}

#[test]
fn a_handler_goes_on_after_a_error() {
    let made = executes("if inputs: raise ValueError('once')\nreturn []");
    assert_eq!(
        made.fails(&[floats("a", &[1], &[1.0])]).to_string(),
        "ValueError: once"
    );
    assert!(made.outputs(&[]).is_empty());
}

#[test]
fn inputs_come_in_the_order_given() {
    let made = executes("return [Tensor('out', ','.join(t.name for t in inputs).encode())]");
    let inputs = [
        floats("z", &[0], &[]),
        floats("a", &[0], &[]),
        floats("m", &[0], &[]),
    ];
    assert_eq!(super::support::text(&made.outputs(&inputs)[0]), "z,a,m");
}

#[test]
fn attributes_are_shared_by_all_instances() {
    let made = executes(
        "self.count = getattr(self, 'count', 0) + 1\nreturn [Tensor('out', str(self.count).encode())]",
    );
    for count in 1..4 {
        assert_eq!(
            super::support::text(&made.outputs(&[])[0]),
            count.to_string()
        );
    }
}

#[test]
fn execute_may_have_more_parameters_with_defaults() {
    let made = super::support::handler(
        "class OvmsPythonModel:\n    def execute(self, inputs, state='default', *rest, **named):\n        assert state == 'default' and not rest and not named\n        return []\n",
    );
    assert!(made.outputs(&[]).is_empty());
    let made = super::support::handler(
        "class OvmsPythonModel:\n    @staticmethod\n    def execute(inputs):\n        return []\n",
    );
    assert!(made.outputs(&[]).is_empty());
}
