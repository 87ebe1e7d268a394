//! Execution of custom nodes: parameters, tensors of every kind, and buffers released once.

use std::sync::Arc;

use ovms::{
    custom_node::{Library, Node},
    servable::TensorSource,
    task,
    tensor::{DataType, Dim, Layout, PartialShape, Tensor},
};

use crate::support::{
    eventually,
    nodes::{Own, compiled, floats, output},
    thread,
};

const ONE_TO_TEN: [f32; 10] = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0];

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap()
}

fn add_sub(params: &[(&str, &str)]) -> Arc<Node> {
    let library = Library::open("add_sub", &compiled("add_sub.c")).unwrap();
    Node::initialize(&library, params.iter().copied()).unwrap()
}

fn shifted(by: f32) -> Vec<f32> {
    ONE_TO_TEN.iter().map(|number| number + by).collect()
}

#[test]
fn parameters_reach_the_node() {
    let input = floats(&[1, 10], &ONE_TO_TEN);
    for (params, by) in [
        (&[][..], 1.0),
        (&[("add_number", "5")], 5.0),
        (&[("sub_number", "2.5"), ("add_number", "10")], 7.5),
    ] {
        let outputs = add_sub(params)
            .execute(&[("input_numbers", &input)])
            .unwrap();
        assert_eq!(output(&outputs, "output_numbers"), shifted(by));
        assert_eq!(
            ovms::tensor::named(&outputs, "output_numbers")
                .unwrap()
                .shape(),
            [1, 10]
        );
    }
}

#[test]
fn nodes_of_one_library_have_handles_of_their_own() {
    let input = floats(&[1, 10], &ONE_TO_TEN);
    let nodes: Vec<Arc<Node>> = ["1", "2", "3"]
        .map(|number| add_sub(&[("add_number", number)]))
        .into();
    for (node, by) in nodes.iter().zip([1.0, 2.0, 3.0]) {
        let outputs = node.execute(&[("input_numbers", &input)]).unwrap();
        assert_eq!(output(&outputs, "output_numbers"), shifted(by));
    }
}

#[test]
fn a_pool_of_the_nodes_own_gets_everything_back() {
    let node = add_sub(&[("output_queue_size", "2"), ("info_queue_size", "1")]);
    let input = floats(&[1, 10], &ONE_TO_TEN);
    let run = || node.execute(&[("input_numbers", &input)]).unwrap();
    // More than the pool has, and all of them different memory.
    let held: Vec<_> = (0..5).map(|_| run()).collect();
    let mut places: Vec<_> = held
        .iter()
        .map(|outputs| {
            ovms::tensor::named(outputs, "output_numbers")
                .unwrap()
                .data()
                .as_ptr()
        })
        .collect();
    // Those of the pool are the first that are free again.
    let pooled = places[0];
    drop(held);
    let again = run();
    assert_eq!(
        ovms::tensor::named(&again, "output_numbers")
            .unwrap()
            .data()
            .as_ptr(),
        pooled,
        "the buffers of the first call have not all come back"
    );
    places.sort_unstable();
    places.dedup();
    assert_eq!(places.len(), 5);
    for _ in 0..3 {
        assert_eq!(node.inputs().unwrap()[0].name, "input_numbers");
        assert_eq!(node.outputs().unwrap()[0].name, "output_numbers");
    }
}

#[test]
fn the_number_of_results_is_the_nodes() {
    let library = Library::open("dynamic", &compiled("dynamic_results.cpp")).unwrap();
    let node = Node::initialize(&library, []).unwrap();
    let numbers = floats(&[1, 3], &[1.0, 2.0, 3.0]);
    for how_many in [0_i32, 1, 4] {
        let data = how_many.to_le_bytes().to_vec();
        let count = Tensor::new(DataType::I32, vec![1], data.into()).unwrap();
        let outputs = node
            .execute(&[("numbers", &numbers), ("how_many", &count)])
            .unwrap();
        let results = ovms::tensor::named(&outputs, "results").unwrap();
        assert_eq!(results.shape()[1..], [1, 3]);
        assert_eq!(i32::try_from(results.shape()[0]), Ok(how_many));
        let expected: Vec<f32> = (0_u8..4)
            .take(results.shape()[0])
            .flat_map(|result| [1.0, 2.0, 3.0].map(|number| number + f32::from(result)))
            .collect();
        assert_eq!(output(&outputs, "results"), expected);
    }
    let fixed = Node::initialize(&library, [("how_many", "2")]).unwrap();
    let outputs = fixed.execute(&[("numbers", &numbers)]).unwrap();
    assert_eq!(
        ovms::tensor::named(&outputs, "results").unwrap().shape(),
        [2, 1, 3]
    );
    assert_eq!(fixed.inputs().unwrap().len(), 1);
    assert_eq!(node.inputs().unwrap().len(), 2);
}

#[test]
fn buffers_come_back_in_the_order_of_the_interface() {
    let own = Own::open("counting.c");
    let input = floats(&[2], &[1.0, 2.0]);
    let node = own.node(&[]);
    let outputs = node.execute(&[("a", &input), ("b", &input)]).unwrap();
    assert_eq!(own.books().events, "IXdda");
    assert_eq!(own.books().alive, 2);
    drop(outputs);
    assert_eq!(own.books().events, "IXddatt");
    drop(node);
    let books = own.even();
    assert_eq!(books.events, "IXddattD");
    assert_eq!(books.buffers, [5, 5]);
}

#[test]
fn outputs_are_the_nodes_memory() {
    let own = Own::open("counting.c");
    let node = own.node(&[]);
    let input = floats(&[2], &[1.0, 2.0]);
    let outputs = node.execute(&[("a", &input)]).unwrap();
    let (name, tensor) = outputs.into_iter().next().unwrap();
    assert_eq!((name.as_str(), &tensor), ("a", &input));
    // A part of it holds all of it, and so does a copy.
    let part = tensor.data().slice(4..);
    let copy = tensor.clone();
    assert_eq!(copy.data().as_ptr(), tensor.data().as_ptr());
    drop(tensor);
    drop(copy);
    assert_eq!(own.books().alive, 1);
    assert_eq!(part[..], 2_f32.to_le_bytes());
    drop(part);
    drop(node);
    own.even();
}

#[test]
fn tensors_outlive_node_and_library() {
    let own = Own::open("counting.c");
    let path = own.library.path().to_owned();
    let node = own.node(&[]);
    let input = floats(&[3], &[1.0, 2.0, 3.0]);
    let outputs = node.execute(&[("kept", &input)]).unwrap();
    drop(input);
    let library = Arc::downgrade(&own.library);
    drop(node);
    assert_eq!(own.books().handles, [1, 0], "deinitialized under a tensor");
    drop(own);
    assert!(library.upgrade().is_some(), "closed under a tensor");
    let elsewhere = thread(move || {
        let read = output(&outputs, "kept");
        drop(outputs);
        read
    });
    assert_eq!(elsewhere.join().unwrap(), [1.0, 2.0, 3.0]);
    assert!(library.upgrade().is_none());
    // It is still in the process, by its path, although the file has gone.
    let _ = std::fs::metadata(&path).unwrap_err();
}

#[test]
fn the_last_tensor_ends_the_node() {
    let own = Own::open("counting.c");
    let node = own.node(&[]);
    let input = floats(&[1], &[1.0]);
    let first = node.execute(&[("a", &input)]).unwrap();
    let second = node.execute(&[("a", &input)]).unwrap();
    drop(node);
    drop(second);
    assert_eq!(own.books().handles, [1, 0]);
    drop(first);
    assert_eq!(own.even().events, "IXdaXdattD");
}

#[test]
fn every_type_arrives_as_the_interface_has_it() {
    let own = Own::open("counting.c");
    let node = own.node(&[]);
    for dtype in DataType::ALL {
        let size = dtype.size().unwrap_or(5);
        let data: Vec<u8> = (1_u8..).take(2 * size).collect();
        let input = Tensor::new(dtype, vec![1, 2], data.clone().into()).unwrap();
        let outputs = node.execute(&[("any", &input)]).unwrap();
        let returned = ovms::tensor::named(&outputs, "any").unwrap();
        assert_eq!(returned.data()[..], data);
        let has_one = !matches!(
            dtype,
            DataType::Bool | DataType::U32 | DataType::U64 | DataType::Bf16 | DataType::String
        );
        if has_one {
            assert_eq!(returned, &input);
        } else {
            assert_eq!(returned.dtype(), DataType::U8, "{dtype}");
        }
    }
    drop(node);
    own.even();
}

#[test]
fn scalars_and_empty_tensors_pass() {
    let own = Own::open("counting.c");
    let node = own.node(&[]);
    let scalar = floats(&[], &[4.0]);
    let empty = floats(&[2, 0, 3], &[]);
    let outputs = node
        .execute(&[("scalar", &scalar), ("empty", &empty)])
        .unwrap();
    assert_eq!(ovms::tensor::named(&outputs, "scalar"), Some(&scalar));
    assert_eq!(ovms::tensor::named(&outputs, "empty"), Some(&empty));
    let held = ovms::tensor::named(&outputs, "empty").unwrap().clone();
    drop(outputs);
    assert_eq!(own.books().alive, 1, "an empty output is a buffer, too");
    drop(held);
    drop(node);
    own.even();
}

#[test]
fn outputs_of_one_node_are_inputs_of_the_next() {
    let own = Own::open("counting.c");
    let [first, second] = [own.node(&[]), own.node(&[])];
    let input = floats(&[2], &[1.0, 2.0]);
    let passed = first.execute(&[("a", &input)]).unwrap();
    drop(first);
    let outputs = second
        .execute(&[("b", ovms::tensor::named(&passed, "a").unwrap())])
        .unwrap();
    drop(passed);
    assert_eq!(own.books().handles, [2, 1]);
    assert_eq!(ovms::tensor::named(&outputs, "b"), Some(&input));
    drop((outputs, second));
    own.even();
}

#[test]
fn a_handle_may_stay_null() {
    let own = Own::open("counting.c");
    let node = own.node(&[("no_handle", "")]);
    let input = floats(&[1], &[1.0]);
    assert!(node.execute(&[("a", &input)]).is_ok());
    assert!(node.inputs().is_ok());
    drop(node);
    assert_eq!(own.even().handles, [1, 1]);
}

#[test]
fn what_a_node_says_of_its_tensors() {
    let own = Own::open("counting.c");
    let node = own.node(&[("a key", "its value")]);
    let described = |name: &str, dtype, dims: &[Dim]| TensorSource {
        name: name.to_owned(),
        dtype,
        shape: PartialShape(dims.to_vec()),
        layout: Layout::unspecified(dims.len()),
    };
    let dims = [Dim::Fixed(1), Dim::Any, Dim::Fixed(10)];
    let expected = [
        described("numbers", Some(DataType::F32), &dims),
        described("scalar", Some(DataType::F32), &[]),
        described("untyped", None, &dims),
        described("mistyped", None, &dims),
        described("a key", Some(DataType::F32), &dims),
    ];
    assert_eq!(node.inputs().unwrap(), expected);
    assert_eq!(node.outputs().unwrap(), expected);
    drop(node);
    assert_eq!(own.even().events, "INnnnnnniNnnnnnniD");
}

#[test]
fn threads_share_a_handle() {
    const THREADS: usize = 8;
    let own = Own::open("counting.c");
    let node = own.node(&[("meet", "8")]);
    let running: Vec<_> = (0_u8..)
        .take(THREADS)
        .map(|index| {
            let node = Arc::clone(&node);
            thread(move || {
                let mut held = Vec::new();
                for round in 0_u8..100 {
                    let value = f32::from(index) * 1000.0 + f32::from(round);
                    let input = floats(&[2, 2], &[value; 4]);
                    let outputs = node.execute(&[("x", &input), ("y", &input)]).unwrap();
                    held.push((input, outputs));
                    assert_eq!(node.inputs().unwrap().len(), 5);
                    if held.len() > 5 {
                        held.remove(0);
                    }
                }
                held
            })
        })
        .collect();
    // The last ones of each thread are dropped on this one, after the node's own handle.
    drop(node);
    for thread in running {
        for (input, outputs) in thread.join().unwrap() {
            assert_eq!(ovms::tensor::named(&outputs, "x"), Some(&input));
            assert_eq!(ovms::tensor::named(&outputs, "y"), Some(&input));
        }
    }
    let books = own.even();
    assert_eq!(books.events.matches('X').count(), THREADS * 100);
    assert!(books.events.ends_with('D'));
}

#[test]
fn the_last_tensor_ends_the_node_off_the_async_workers() {
    let own = Own::open("counting.c");
    let node = own.node(&[("end_meets", "")]);
    let input = floats(&[1], &[1.0]);
    let outputs = node.execute(&[("a", &input)]).unwrap();
    drop(node);
    let other = own.node(&[]);
    runtime().block_on(async {
        // Waits for the next call, which would not come if it ran here.
        drop(outputs);
        loop {
            // Until `deinitialize` has begun, a call is not the next one.
            other.execute(&[("a", &input)]).unwrap();
            tokio::task::yield_now().await;
            if own.books().handles[1] == 1 {
                break;
            }
        }
    });
    drop(other);
    own.even();
}

#[test]
fn a_run_that_nobody_waits_for_leaks_nothing() {
    let own = Own::open("counting.c");
    let node = own.node(&[("meet", "2")]);
    let input = floats(&[1], &[1.0]);
    let runtime = runtime();
    runtime.block_on(async {
        let (node, input) = (Arc::clone(&node), input.clone());
        let run = task::blocking("custom node", move || node.execute(&[("a", &input)]));
        let mut run = std::pin::pin!(run);
        assert!(futures::poll!(run.as_mut()).is_pending());
        eventually("the run begins", || {
            own.books().events.contains('X').then_some(())
        });
    });
    // The future is gone; the run ends when another one has come.
    node.execute(&[("a", &input)]).unwrap();
    drop(node);
    // Waits for what runs, and drops what would.
    drop(runtime);
    assert_eq!(own.even().events.matches('X').count(), 2);
}
