//! Tests of the memory shared by a tensor, and of copies.

use std::sync::Arc;

use bytes::Bytes;

use super::support::{
    asserts, executes, executes_in, floats, group, handler, in_time, is_apart, outputs, until,
    with_descriptors, without_descriptors,
};
use crate::{
    error::ErrorKind,
    python::{HandlerTensor, error::HandlerError},
};

const LARGE: usize = 10 << 20;

fn large() -> HandlerTensor {
    let data: Vec<u8> = (0..LARGE).map(|index| (index % 251) as u8).collect();
    HandlerTensor::new("a", "UINT8", vec![LARGE as i64], Bytes::from(data), true)
}

/// Handler code that returns the address seen by numpy.
const ADDRESS: &str = "import numpy as np\nimport struct\narray = np.asarray(inputs[0])\naddress = array.__array_interface__['data'][0]\n";

#[test]
fn an_input_that_is_returned_lies_where_it_was_copied_to() {
    let input = large();
    for body in [
        "return [inputs[0]]",
        "return [Tensor('out', inputs[0])]",
        "return [Tensor('out', inputs[0].data)]",
        "return [Tensor('out', Tensor('x', memoryview(inputs[0])))]",
        "import numpy as np\nreturn [Tensor('out', np.asarray(inputs[0]))]",
        "import numpy as np\nreturn [Tensor('out', np.asarray(inputs[0])[:])]",
    ] {
        let made = executes(&format!(
            "{ADDRESS}self.address = address\nif len(inputs) == 2: return [Tensor('out', struct.pack('Q', self.last))]\nself.last = address\n{body}"
        ));
        let out = made.outputs(std::slice::from_ref(&input));
        assert_eq!(out[0].bytes(), input.bytes());
        // It is not copied to get there again either.
        let again = made.outputs(&[out[0].clone(), out[0].clone()]);
        assert_eq!(again[0].bytes().len(), 8, "{body}");
    }
}

#[test]
fn a_part_of_an_input_is_a_result() {
    let input = large();
    let out = executes("return [Tensor('out', inputs[0].data[100:1000100])]")
        .outputs(std::slice::from_ref(&input));
    assert_eq!(out[0].bytes()[..], input.bytes()[100..1_000_100]);
}

#[test]
fn an_array_in_shared_memory_is_seen_as_it_was_written() {
    let made = executes(
        "import numpy as np, pyovms\nout = pyovms.empty('out', [2, 500000], 'INT32')\narray = np.asarray(out)\nassert array.shape == (2, 500000) and array.flags.writeable\narray[:] = np.arange(1000000).reshape(2, 500000)\nreturn [out, Tensor('b', array[1])]",
    );
    for _ in 0..3 {
        let out = made.outputs(&[]);
        assert_eq!(
            (out[0].datatype(), out[0].shape()),
            ("INT32", &[2, 500_000][..])
        );
        assert_eq!(out[0].bytes()[4..8], 1_i32.to_le_bytes());
        assert_eq!(out[1].bytes()[..4], 500_000_i32.to_le_bytes());
        // The same memory.
        assert_eq!(
            out[0].bytes()[2_000_000..].as_ptr(),
            out[1].bytes().as_ptr()
        );
    }
}

#[test]
fn what_a_handler_may_still_change_is_copied() {
    for (make, change) in [
        ("bytearray(1000000)", "self.buffer[0] = value"),
        ("np.zeros(1000000, np.uint8)", "self.buffer[0] = value"),
        (
            "np.zeros((2, 1000000), np.uint8)",
            "self.buffer[:, 0] = value",
        ),
        ("array.array('B', bytes(1000000))", "self.buffer[0] = value"),
    ] {
        for view in [
            "self.buffer",
            "memoryview(self.buffer)",
            "Tensor('x', self.buffer)",
        ] {
            let made = executes(&format!(
                "import numpy as np, array\nif not hasattr(self, 'buffer'): self.buffer = {make}\nvalue = getattr(self, 'value', 6) + 1\nself.value = value\n{change}\nreturn [Tensor('out', {view})]"
            ));
            let first = made.outputs(&[]);
            let second = made.outputs(&[]);
            assert_eq!(
                (first[0].bytes()[0], second[0].bytes()[0]),
                (7, 8),
                "{make} {view}"
            );
        }
    }
}

#[test]
fn a_view_of_what_may_change_is_copied() {
    let made = executes(
        "import numpy as np\nif not hasattr(self, 'buffer'): self.buffer = np.zeros((2, 500000), np.uint8)\nself.buffer += 1\nreturn [Tensor('out', self.buffer[0])]",
    );
    let first = made.outputs(&[]);
    let second = made.outputs(&[]);
    assert_eq!((first[0].bytes()[0], second[0].bytes()[0]), (1, 2));
}

#[test]
fn other_orders_become_c_order() {
    let made = executes(
        "import numpy as np\nbase = np.arange(12, dtype=np.uint8).reshape(3, 4)\nbig = np.arange(200000, dtype=np.uint8).reshape(400, 500)\nreturn [Tensor('a', base.T), Tensor('b', base[:, ::2]), Tensor('c', base[::-1]), Tensor('d', big.T)]",
    );
    let out = made.outputs(&[]);
    assert_eq!(out[0].bytes()[..], [0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11]);
    assert_eq!(out[0].shape(), [4, 3]);
    assert_eq!(out[1].bytes()[..], [0, 2, 4, 6, 8, 10]);
    assert_eq!(out[2].bytes()[..4], [8, 9, 10, 11]);
    assert_eq!(
        out[3].bytes()[..3],
        [0, (500 % 256) as u8, (1000 % 256) as u8]
    );
}

#[test]
fn what_says_to_be_larger_than_memory_is_an_error() {
    let raised = executes(
        "import numpy as np\nreturn [Tensor('out', np.broadcast_to(np.uint8(1), (1 << 30, 1 << 30)))]",
    )
    .fails(&[]);
    assert_eq!(raised.kind, "MemoryError");
    // Up to the next page it would be 2^64, which is none.
    let last = usize::MAX / 3;
    let body = format!("import pyovms\nreturn [pyovms.empty('out', (3, {last}), 'UINT8')]");
    let raised = executes(&body).fails(&[]);
    let text = "ValueError: empty() shape must have lengths of 0 or more that fit in memory";
    assert_eq!(raised.to_string(), text);
}

#[test]
fn strings_that_have_no_room_are_memory_errors() {
    let body = "import resource
size = 64 << 20
text = bytearray(4 + size)
text[:4] = size.to_bytes(4, 'little')
tensor = Tensor('a', text, datatype='BYTES')
many = [bytes(size)] * 4
limits = resource.getrlimit(resource.RLIMIT_AS)
def fails(room, function):
  with open('/proc/self/statm') as file: now = int(file.read().split()[0]) * resource.getpagesize()
  resource.setrlimit(resource.RLIMIT_AS, (now + room, limits[1]))
  try: function()
  except MemoryError: return
  finally: resource.setrlimit(resource.RLIMIT_AS, limits)
  raise AssertionError(f'{function} has room in {room}')
# For nothing, and for the copy that is cut but for no string.
for room in (size // 2, size + size // 2):
  fails(room, tensor.texts)
  fails(room, tensor.elements)
fails(size // 2, lambda: Tensor('out', many))
assert len(tensor.texts()[0]) == size and tensor.elements() == [bytes(size)]
assert Tensor('out', many).size == 4 * (4 + size)";
    asserts(&[], body);
}

#[test]
fn names_and_shapes_that_no_message_has_room_for_are_errors() {
    let made = executes(
        "long = 'x' * (129 << 20)\n\
         if not inputs: return [Tensor('out', bytes(16384))] * 20000\n\
         return [Tensor('a', b'', datatype=long)]",
    );
    // One more than it may have, with which the rest of the graph refuses them.
    assert_eq!(made.outputs(&[]).len(), 6);
    let input = floats("a", &[1], &[1.0]);
    let raised = made.fails(std::slice::from_ref(&input));
    let text = "ValueError: execute must return a list of pyovms.Tensor; their names, datatypes, and shapes have more \
                than 134217728 bytes";
    assert_eq!(raised.to_string(), text);
    let shape = vec![1; 14 << 20];
    let deep = HandlerTensor::new("a", "FP32", shape, input.bytes().clone(), true);
    let error = made.instance().called(&[deep], true).unwrap_err();
    assert!(
        matches!(error, HandlerError::Memory(ErrorKind::TooLarge, _)),
        "{error}"
    );
    assert_eq!(made.outputs(&[]).len(), 6);
}

#[test]
fn formats_follow_the_datatype() {
    for (kserve, format, width) in [
        ("BOOL", "?", 1),
        ("UINT8", "B", 1),
        ("UINT16", "H", 2),
        ("UINT32", "I", 4),
        ("UINT64", "Q", 8),
        ("INT8", "b", 1),
        ("INT16", "h", 2),
        ("INT32", "i", 4),
        ("INT64", "q", 8),
        ("FP16", "e", 2),
        ("FP32", "f", 4),
        ("FP64", "d", 8),
    ] {
        let data = Bytes::from(vec![0; width * 6]);
        let input = HandlerTensor::new("a", kserve, vec![2, 3], data, true);
        asserts(
            &[input],
            &format!(
                "t = inputs[0]\nd = t.data\nassert (t.datatype, t.shape) == ('{kserve}', (2, 3))\nassert (d.format, d.itemsize, d.shape, d.strides) == ('{format}', {width}, (2, 3), ({}, {width})), d.format\nassert Tensor('b', t).datatype == '{kserve}'",
                3 * width
            ),
        );
    }
}

#[test]
fn scalars_and_empty_shapes_are_kept() {
    asserts(
        &[
            floats("a", &[], &[1.5]),
            floats("b", &[2, 0, 3], &[]),
            HandlerTensor::new("c", "BYTES", vec![2], Bytes::new(), false),
            HandlerTensor::new("d", "BF16", vec![2], Bytes::from_static(b"abcd"), true),
        ],
        "a, b, c, d = inputs\nassert (a.shape, a.data.shape, a.data.tolist()) == ((), (), 1.5)\nassert (b.shape, b.data.shape, b.size) == ((2, 0, 3), (2, 0, 3), 0)\nassert (c.shape, c.data.shape, bytes(c)) == ((2,), (0,), b'')\nassert (d.datatype, d.data.format, d.data.shape) == ('BF16', 'B', (4,))",
    );
}

#[test]
fn a_shape_that_does_not_fit_gives_a_row_of_bytes() {
    let input = HandlerTensor::new("a", "FP32", vec![5], Bytes::from_static(b"12345678"), true);
    asserts(
        &[input],
        "assert (inputs[0].data.format, inputs[0].data.shape) == ('B', (8,))",
    );
}

#[test]
fn the_next_node_of_the_worker_gets_the_same_object() {
    let workers = group();
    let first = executes_in(
        &workers,
        "t = Tensor('out', bytearray(b'abc'))\nt.note = {'k': 1}\nself.kept = t\nif inputs: assert inputs[0] is self.first\nself.first = t\nreturn [t]",
    );
    let out = first.outputs(&[]);
    let second = executes_in(
        &workers,
        "assert inputs[0].note == {'k': 1}\nreturn [inputs[0]]",
    );
    let through = second.outputs(&out);
    assert!(first.run(&through).is_ok());
    // That of another worker gets one like it.
    let third = executes(
        "assert not hasattr(inputs[0], 'note')\nassert bytes(inputs[0]) == b'abc'\nreturn []",
    );
    assert!(third.run(&out).is_ok());
}

#[test]
fn the_next_node_sees_a_buffer_as_it_was_returned() {
    let made = executes(
        "if inputs:\n    self.source[0] = 99\n    assert bytes(inputs[0]) == bytes([1, 2]), bytes(inputs[0])\n    assert inputs[0].note == 'k'\n    return []\nself.source = bytearray([1, 2])\ntensor = Tensor('out', self.source)\ntensor.note = 'k'\nreturn [tensor]",
    );
    let out = made.outputs(&[]);
    assert!(made.run(&out).is_ok());
    // The captured contents are those at the return.
    assert_eq!(out[0].bytes()[..], [1, 2]);
}

#[test]
fn outputs_are_dropped_without_the_lock() {
    let made = executes("return [Tensor('out', bytes(1000000)) for _ in range(3)]");
    for _ in 0..20 {
        drop(outputs(made.run(&[])));
    }
}

#[test]
fn lengths_beside_a_length_of_zero_may_be_of_any_size() {
    for shape in [
        [0, i64::MAX, i64::MAX],
        [i64::MAX, i64::MAX, 0],
        [i64::MAX, 0, i64::MAX],
    ] {
        asserts(
            &[floats("a", &shape, &[])],
            "assert len(bytes(inputs[0])) == 0\nview = memoryview(inputs[0])\nassert view.nbytes == 0\nassert 0 in view.shape",
        );
    }
}

#[test]
fn an_array_that_a_weak_reference_leads_to_is_copied() {
    let made = executes(
        "import weakref\nimport numpy as np\nif inputs:\n    self.array()[:] = 2\n    return []\narray = np.ones(1 << 20, dtype=np.uint8)\nself.array = weakref.ref(array)\ntensor = Tensor('out', array)\nself.tensor = tensor\ndel array\nreturn [tensor]",
    );
    let out = made.outputs(&[]);
    // The tensor kept by the handler keeps the array alive.
    made.outputs(&[floats("a", &[1], &[0.0])]);
    assert!(out[0].bytes().iter().all(|byte| *byte == 1));
}

#[test]
fn memory_that_is_not_used_is_given_back() {
    let workers = group();
    let made = executes_in(&workers, "return []");
    outputs(made.run(&[large()]));
    outputs(made.run(&[floats("a", &[10_000], &[1.0; 10_000])]));
    assert!(workers.charged_inputs() > LARGE);
    let unused = until(|| workers.charged_inputs() == 0);
    workers.runtime().block_on(unused);
    outputs(made.run(&[large()]));
}

#[test]
fn memory_of_a_dead_worker_is_given_back_while_states_of_it_are_there() {
    let made = handler(
        "class OvmsPythonModel:\n  def create_state(self): pass\n  def execute(self, inputs, state): return []\n",
    );
    let workers = Arc::clone(made.handler.group());
    let instance = made.instance();
    outputs(instance.execute(&[large()], true));
    assert!(workers.charged_inputs() >= LARGE);
    let link = workers.links().remove(0);
    link.kill("was killed".to_owned());
    let unused = until(|| workers.charged_inputs() == 0);
    workers.runtime().block_on(unused);
    instance.called(&[], true).unwrap_err();
}

/// Handler code that takes the right to more descriptors from its worker, or gives it back.
const DESCRIPTORS: &str = "import os, resource\nkind = resource.RLIMIT_NOFILE\nif len(inputs) == 1:\n    self.limit = resource.getrlimit(kind)\n    next = os.open('/dev/null', 0)\n    os.close(next)\n    resource.setrlimit(kind, (next, self.limit[1]))\nif len(inputs) == 2:\n    resource.setrlimit(kind, self.limit)\nreturn [Tensor('out', str(os.getpid()).encode())]";

#[test]
fn a_worker_without_descriptors_refuses_what_it_cannot_have() {
    let made = executes(DESCRIPTORS);
    let small = floats("a", &[1], &[1.0]);
    // All of its threads and modules are there.
    let before = made.outputs(&[]);
    made.outputs(std::slice::from_ref(&small));
    for _ in 0..3 {
        let raised = made.fails(&[large(), large(), large()]);
        assert_eq!(raised.kind, "MemoryError");
        let reason = "no memory for the 10485760 bytes of input \"a\": the process that takes them has as many files open";
        assert!(raised.message.starts_with(reason), "{raised}");
    }
    made.outputs(&[small.clone(), small]);
    let after = made.outputs(&[large(), large(), large()]);
    assert_eq!(before[0].bytes(), after[0].bytes(), "it is the same worker");
}

#[test]
fn a_server_without_descriptors_refuses_what_it_cannot_have() {
    if !is_apart("memory::a_server_without_descriptors_refuses_what_it_cannot_have") {
        return;
    }
    // Small ones have an arena together.
    for bytes in [LARGE, 100_000] {
        let made = executes(&format!("return [Tensor('out', bytes({bytes}))]"));
        let link = made.handler.group().links().remove(0);
        let limit = without_descriptors();
        for _ in 0..3 {
            let refused = made.instance().called(&[], true).unwrap_err();
            assert!(matches!(refused, HandlerError::Memory(..)), "{refused}");
            let reason = format!("no memory to take {bytes} bytes from a Python worker: ");
            assert!(refused.to_string().starts_with(&reason), "{refused}");
        }
        with_descriptors(limit);
        assert_eq!(made.outputs(&[])[0].bytes().len(), bytes);
        assert!(link.is_alive());
    }
}

#[test]
fn a_server_without_descriptors_writes_to_a_worker_that_does_not_read() {
    if !is_apart("memory::a_server_without_descriptors_writes_to_a_worker_that_does_not_read") {
        return;
    }
    let made = executes("return []");
    let link = made.handler.group().links().remove(0);
    let worker = rustix::process::Pid::from_raw(link.pid().cast_signed()).unwrap();
    let input = [floats("a", &[4000], &[1.0; 4000])];
    rustix::process::kill_process(worker, rustix::process::Signal::STOP).unwrap();
    let limit = without_descriptors();
    // More than the socket takes.
    let instances = [(); 60].map(|()| made.instance());
    let calls = instances.iter().map(|instance| instance.begun(&input));
    let answers = made.handler.group().runtime().block_on(async {
        let mut calls = Box::pin(futures::future::join_all(calls));
        assert!(futures::poll!(calls.as_mut()).is_pending());
        for _ in 0..1000 {
            tokio::task::yield_now().await;
        }
        rustix::process::kill_process(worker, rustix::process::Signal::CONT).unwrap();
        in_time(calls).await
    });
    with_descriptors(limit);
    for answer in answers {
        answer.unwrap();
    }
    assert!(link.is_alive());
}
