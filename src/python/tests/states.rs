//! Tests of the state of one instance.

use std::fs;

use super::support::{Folder, Instance, Made, awaited, floats, handler, left, outputs, text};
use crate::python::Produced;

fn counting(folder: &Folder, destroy: &str) -> Made {
    let log = folder.file("log");
    handler(&format!(
        "from pyovms import Tensor\ndef note(text): open({log:?}, 'a').write(text + ' ')\nclass OvmsPythonModel:\n    def create_state(self):\n        note('create')\n        return {{'count': 0}}\n    def execute(self, inputs, state):\n        state['count'] += 1\n        return [Tensor('out', str(state['count']).encode())]\n{destroy}    def finalize(self): note('finalize')\n"
    ))
}

const DESTROY: &str = "    def destroy_state(self, state): note(f\"destroy{state['count']}\")\n";

#[test]
fn each_instance_has_a_state() {
    let folder = Folder::new();
    let made = counting(&folder, DESTROY);
    assert!(made.handler.stateful());
    let (first, second) = (made.instance(), made.instance());
    let count = |instance: &super::support::Instance| {
        text(&outputs(instance.execute(&[], true))[0]).to_owned()
    };
    assert_eq!(
        [count(&first), count(&first), count(&second), count(&first)],
        ["1", "2", "1", "3"]
    );
    first.close();
    first.close();
    second.close();
    made.handler.finalize();
    assert_eq!(
        fs::read_to_string(folder.file("log")).unwrap(),
        "create create destroy3 destroy1 finalize "
    );
}

#[test]
fn a_dropped_instance_is_closed() {
    let folder = Folder::new();
    let made = counting(&folder, DESTROY);
    drop(made.instance());
    made.handler.finalize();
    assert_eq!(
        fs::read_to_string(folder.file("log")).unwrap(),
        "create destroy0 finalize "
    );
}

#[test]
fn destroy_state_is_optional() {
    let folder = Folder::new();
    let made = counting(&folder, "");
    let instance = made.instance();
    outputs(instance.execute(&[], true));
    instance.close();
    drop(instance);
    made.handler.finalize();
    assert_eq!(awaited(&folder.file("log")), "create finalize ");
}

#[test]
fn destroy_state_that_fails_harms_nobody() {
    let folder = Folder::new();
    let made = counting(
        &folder,
        "    def destroy_state(self, state): raise SystemExit(1)\n",
    );
    made.instance().close();
    assert_eq!(outputs(made.instance().execute(&[], true)).len(), 1);
}

#[test]
fn create_state_that_fails_is_reported() {
    let made = handler(
        "class OvmsPythonModel:\n    def create_state(self): raise ValueError('no state')\n    def execute(self, inputs, state): return []\n",
    );
    let instance = Instance::new(&made.handler);
    assert_eq!(
        instance.open().unwrap_err().to_string(),
        "ValueError: no state"
    );
    instance.close();
}

#[test]
fn a_state_may_be_none() {
    let made = handler(
        "class OvmsPythonModel:\n    def create_state(self): pass\n    def execute(self, inputs, state):\n        assert state is None\n        return []\n",
    );
    outputs(made.instance().execute(&[], true));
}

#[test]
fn a_running_instance_goes_on_while_its_handler_ends() {
    let folder = Folder::new();
    let made = counting(&folder, DESTROY);
    let instance = made.instance();
    std::thread::scope(|scope| {
        let ending = scope.spawn(|| made.handler.finalize());
        while Instance::new(&made.handler).open().is_ok() {
            std::thread::yield_now();
        }
        outputs(instance.execute(&[], true));
        instance.close();
        ending.join().unwrap();
    });
    let reported = fs::read_to_string(folder.file("log")).unwrap();
    // Those of rejected attempts were destroyed as well, before the end.
    assert!(reported.contains("destroy1 "), "{reported}");
    assert!(reported.ends_with(" finalize "), "{reported}");
}

#[test]
fn a_state_is_destroyed_after_the_generators_that_use_it() {
    let folder = Folder::new();
    let log = folder.file("log");
    let made = handler(&format!(
        "def note(text): open({log:?}, 'a').write(text + ' ')\nclass OvmsPythonModel:\n    def create_state(self): return []\n    def execute(self, inputs, state):\n        try:\n            yield []\n            yield []\n        finally:\n            note('closed')\n    def destroy_state(self, state): note('destroy')\n    def finalize(self): note('finalize')\n"
    ));
    for is_ended in [false, true] {
        let instance = made.instance();
        let Ok(Produced::Generator(mut generator)) = instance.execute(&[], true) else {
            panic!("expected a generator");
        };
        assert!(instance.next(&mut generator).unwrap().is_some());
        if is_ended {
            instance.close();
            while instance.next(&mut generator).unwrap().is_some() {}
        } else {
            drop(instance);
        }
        drop(generator);
    }
    made.handler.finalize();
    let reported = awaited(&log);
    assert!(reported.ends_with("finalize "), "{reported}");
    // The order of the two is unspecified, except within each.
    let steps: Vec<&str> = reported.split_whitespace().collect();
    let before = |count: usize| {
        let up_to = steps
            .iter()
            .enumerate()
            .filter(|(_, step)| **step == "destroy");
        let place = up_to.map(|(place, _)| place).nth(count).expect("destroyed");
        steps[..place]
            .iter()
            .filter(|step| **step == "closed")
            .count()
    };
    assert!(before(0) >= 1 && before(1) == 2, "{reported}");
}

#[test]
fn a_state_whose_client_leaves_while_it_is_created_is_destroyed() {
    let folder = Folder::new();
    let (log, ends) = (folder.file("log"), folder.file("ends"));
    let made = handler(&format!(
        "import os, time\ndef note(text): open({log:?}, 'a').write(text + ' ')\nclass OvmsPythonModel:\n    def create_state(self):\n        note('create')\n        while not os.path.exists({ends:?}): time.sleep(0.01)\n    def execute(self, inputs, state): return []\n    def destroy_state(self, state): note('destroy')\n    def finalize(self): note('finalize')\n"
    ));
    let instance = Instance::new(&made.handler);
    let leaves = left(instance.opening(), || log.exists());
    made.handler.group().runtime().block_on(leaves);
    drop(instance);
    fs::write(ends, "").unwrap();
    made.handler.finalize();
    assert_eq!(fs::read_to_string(log).unwrap(), "create destroy finalize ");
}

#[test]
fn a_state_is_destroyed_after_the_calls_that_use_it() {
    for generates in [false, true] {
        let folder = Folder::new();
        let (log, ends) = (folder.file("log"), folder.file("ends"));
        let made = handler(&format!(
            "import os, time\ndef note(text): open({log:?}, 'a').write(text + ' ')\nclass OvmsPythonModel:\n    def create_state(self): pass\n    def execute(self, inputs, state):\n        if inputs: return []\n        note('begun')\n        while not os.path.exists({ends:?}): time.sleep(0.01)\n        note('executed')\n        return []\n    def destroy_state(self, state): note('destroy')\n    def finalize(self): note('finalize')\n"
        ));
        let runtime = made.handler.group().runtime().clone();
        let instance = made.instance();
        match generates {
            false => runtime.block_on(left(instance.asked(&[]), || log.exists())),
            true => runtime.block_on(left(instance.begun(&[]), || log.exists())),
        }
        drop(instance);
        // Orders that come after it are done by now.
        for _ in 0..20 {
            let other = Instance::new(&made.handler);
            outputs(other.execute(&[floats("a", &[1], &[0.0])], true));
        }
        fs::write(ends, "").unwrap();
        made.handler.finalize();
        let log = fs::read_to_string(log).unwrap();
        assert_eq!(log, "begun executed destroy finalize ", "{generates}");
    }
}
