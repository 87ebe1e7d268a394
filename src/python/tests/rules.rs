//! Tests that the built-in class follows the same rules as the one in pure Python.

use std::path::Path;

use super::support::{Instance, asserts, outputs, text};
use crate::python::tests::support::handler;

#[test]
fn tensors_follow_the_rules() {
    let rules = Path::new(env!("WORKSPACE_ROOT")).join("tests/clients/tensor_rules.py");
    let made = handler(&format!(
        r#"
import runpy, traceback
import pyovms

class OvmsPythonModel:
    def execute(self, inputs):
        rules = runpy.run_path({rules:?})["RULES"]
        lines = [f"{{len(rules)}} rules"]
        for name, rule in rules.items():
            try:
                rule()
            except BaseException:
                lines.append(f"{{name}}: {{traceback.format_exc()}}")
        return [pyovms.Tensor("out", "\n".join(lines).encode())]
"#
    ));
    let reported = outputs(made.run(&[]));
    let reported = text(&reported[0]);
    let count: usize = reported.split(' ').next().unwrap().parse().unwrap();
    assert!(count > 20, "{reported}");
    assert_eq!(reported.lines().count(), 1, "{reported}");
}

#[test]
fn the_package_is_that_of_the_server() {
    asserts(
        &[],
        "import pyovms\nassert '/ovms/pyovms-' in pyovms.__file__ or '/ovms-' in pyovms.__file__, pyovms.__file__",
    );
}

#[test]
fn an_installed_module_of_that_name_is_not_used() {
    let made = handler(
        "import sys\nfrom pathlib import Path\nimport pyovms\nclass OvmsPythonModel:\n    def execute(self, inputs):\n        return [pyovms.Tensor('out', b'built in')]\n",
    );
    made.folder
        .write("pyovms.py", "raise ImportError('the wrong one')");
    let again = made.folder.load("model.py").unwrap();
    let outputs = outputs(Instance::new(&again).execute(&[], true));
    assert_eq!(text(&outputs[0]), "built in");
}
