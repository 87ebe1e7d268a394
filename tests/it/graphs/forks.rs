//! Processes that are forked: those of handlers are neither workers nor have the memory of one, and workers have nothing in
//! common that only one of them is to have.

use std::{collections::BTreeSet, fs};

use super::{
    shared,
    workers::{config_with, is_fine, number},
};
use crate::support::{
    Server, cli, eventually,
    graphs::{code, reported, shown},
    grpc::Grpc,
    repository,
    server::{free_ports, on},
};

#[test]
fn a_child_that_comes_back_from_its_call_is_ended_and_answers_nothing() {
    let (server, client) = shared::connect();
    for (graph, end, status) in [
        ("forks", "raise ValueError('in the child')", "1"),
        ("forks", "return [Tensor('out', b'of the child')]", "0"),
        ("forks", "import sys; sys.exit(3)", "3"),
        ("forks", "import sys; sys.exit('it ends so')", "1"),
        ("forks_gen", "raise ValueError('in the child')", "1"),
    ] {
        let worker = number(&client, "forks", "os.getpid()");
        let give = if graph == "forks_gen" {
            "yield"
        } else {
            "return"
        };
        let body = format!(
            "import os\nchild = os.fork()\nif child == 0:\n  {end}\n_, status = os.waitpid(child, 0)\n\
             {give} [Tensor('out', str(os.waitstatus_to_exitcode(status)).encode())]"
        );
        let text = reported(&client, code(graph, &body));
        assert_eq!(text, format!("out UINT8 [1] {status}"), "{end}");
        // Two processes would take turns.
        for _ in 0..10 {
            assert_eq!(number(&client, "forks", "os.getpid()"), worker, "{end}");
        }
        is_fine(&client, graph);
    }
    server.wait_log("ValueError: in the child");
    server.wait_log("it ends so");
}

#[test]
fn a_child_has_memory_of_its_own_for_tensors() {
    let (_, client) = shared::connect();
    let body = "import os, pyovms\n\
                def filled(byte):\n\
                \x20 tensor = pyovms.empty('out', (100000,), 'UINT8')\n\
                \x20 memoryview(tensor)[:] = bytes([byte]) * 100000\n\
                \x20 return tensor\n\
                kept = filled(4)\n\
                read, write = os.pipe()\n\
                child = os.fork()\n\
                if child == 0:\n\
                \x20 os.read(read, 1)\n\
                \x20 filled(7)\n\
                \x20 del kept\n\
                \x20 filled(8)\n\
                \x20 os._exit(0)\n\
                own = filled(5)\n\
                os.write(write, b'.')\n\
                os.waitpid(child, 0)\n\
                os.close(read), os.close(write)\n\
                found = [sorted(set(memoryview(it).tobytes())) for it in (kept, own)]\n\
                return [Tensor('out', repr(found).encode())]";
    for _ in 0..3 {
        assert_eq!(
            reported(&client, code("forks_memory", body)),
            "out UINT8 [10] [[4], [5]]"
        );
    }
}

#[test]
fn workers_draw_different_random_numbers_from_a_generator_that_is_forked() {
    let packages = repository::folder();
    let numpy = packages.path().join("numpy");
    fs::create_dir(&numpy).unwrap();
    // As NumPy 1, which makes the generator where it is imported.
    fs::write(numpy.join("__init__.py"), "from . import random\n").unwrap();
    let random = "import random\n_one = random.Random(7)\nseed, rand = _one.seed, _one.random\n";
    fs::write(numpy.join("random.py"), random).unwrap();
    let config = config_with(&[]);
    let ports = free_ports();
    let mut command = cli::command();
    command.args(["serve", "--config_path"]).arg(config.write());
    command.env("PYTHONPATH", packages.path()).args(on(ports));
    let server = Server::spawn(&mut command, ports);
    server.wait_ready();
    let client = Grpc::connect(&server);
    let draw = "import numpy; return [Tensor('out', f'{numpy.random.rand():.17f}'.encode())]";
    let mut drawn = BTreeSet::new();
    for graph in ["py", "other"] {
        drawn.insert(reported(&client, code(graph, draw)));
    }
    reported(&client, code("py", "import os; os._exit(8)"));
    drawn.insert(eventually("another worker is there", || {
        client.infer(code("py", draw)).ok().map(|it| shown(&it))
    }));
    assert_eq!(drawn.len(), 3, "{drawn:?}");
    let are_numbers = drawn.iter().all(|it| it.starts_with("out UINT8 [19] 0."));
    assert!(are_numbers, "{drawn:?}");
}
