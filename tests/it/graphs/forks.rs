//! Processes that handlers fork: they are neither workers nor have the memory of one.

use super::{
    shared,
    workers::{is_fine, number},
};
use crate::support::graphs::{code, reported};

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
