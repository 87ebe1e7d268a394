//! The messages that people read.

use super::{Known, pipeline, validate};
use crate::pipeline::check;

fn reported(text: &str) -> String {
    let errors = validate(text).map(|_| ()).expect_err(text).errors;
    let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
    errors.join("\n")
}

#[test]
fn errors_say_what_where_and_what_next() {
    insta::assert_snapshot!(reported(
        "name dummy\nin image\nsplit -1\n\
         first = dumy(b < request.imag) -> a; gather x\n\
         second = @nne(b < first.b) -> a; split 2\n\
         third = two(x < request.image, c < fourth.a, x < response.o) -> z; gather first\n\
         fourth = wide(b < third.z) -> alias:y\n\
         fourth = dummy/7(b < fourth.alias) -> a\n\
         out o < fourth.alias"
    ), @"
    2:9 pipeline_config_list[0].name: Pipeline has the same name as model - found the name `dummy`, which a model or graph has; expected a name of its own; rename the pipeline
    7:54 pipeline_config_list[0].nodes[1].library_name: Pipeline refers to incorrect library - node `second`: found the library `nne`, which is not open; expected a library that is: dummy, auto, stateful, two, wide, ints, text, text2, …; add it to custom_node_library_config_list
    2:59 pipeline_config_list[0].demultiply_count: Functionality not implemented - node `request`: found a demultiply_count of -1, and 2 demultiplexers in all; expected one demultiplexer, since one of them is dynamic; give each a fixed demultiply_count, or leave only this one
    16:10 pipeline_config_list[0].nodes[4].name: Pipeline definition has multiple nodes with the same name - node `fourth`: found the name of another node; expected a name of its own; `request` and `response` are taken; rename the node, and what refers to it
    4:53 pipeline_config_list[0].nodes[0].model_name: Pipeline definition has reference to missing model - node `first`: found the model `dumy`, which is not there; expected a model of model_config_list: dummy, auto, stateful, two, wide, ints, text, text2, …; did you mean `dummy`?
    4:81 pipeline_config_list[0].nodes[0].gather_from_node: Gather node refers to not existing node - node `first`: found `x`, which is no node; expected a node with demultiply_count: request, second; change gather_from_node, or give that node a demultiply_count
    5:13 pipeline_config_list[0].nodes[0].inputs[0]: Pipeline definition has reference to missing data source - node `first`: found the data_item `imag` of `request`; expected an input of the pipeline: image; did you mean `image`?
    8:13 pipeline_config_list[0].nodes[1].inputs[0]: Pipeline definition has reference to missing data source - node `second`: found the data_item `b` of `first`; expected an alias of its outputs: a; add it to the outputs of that node
    10:80 pipeline_config_list[0].nodes[2].gather_from_node: Gather node refers to node that isn't demultiplexer - node `third`: found `first`, which has no demultiply_count; expected a node with demultiply_count: request, second; change gather_from_node, or give that node a demultiply_count
    11:68 pipeline_config_list[0].nodes[2].inputs[1]: Pipeline definition has connection to non existing model input - node `third`: found the input `c`; expected an input of what it runs: x, y; take it away, or rename it
    11:68 pipeline_config_list[0].nodes[2].inputs[1]: Pipeline definition has reference to missing data source - node `third`: found the data_item `a` of `fourth`; expected an alias of its outputs: alias; did you mean `alias`?
    11:118 pipeline_config_list[0].nodes[2].inputs[2]: Pipeline definition has response node used as dependency node - node `third`: found `response`; expected a node that gives something: request, first, second, third, fourth, fourth; change node_name
    11:118 pipeline_config_list[0].nodes[2].inputs[2]: Pipeline definition has multiple connections to the same input of underlying model - node `third`: found `x` again; expected one source for each input; take one of them away
    14:13 pipeline_config_list[0].nodes[3].inputs[0]: Invalid input shape - node `fourth`: found FP32 (1,10) from `third`; expected (1,20); connect an output of the same shape, or put a node between
    16:74 pipeline_config_list[0].nodes[4].version: Pipeline definition has reference to missing model - node `fourth`: found a version that the model `dummy` does not have; expected a version that it has: 1, 2; change the version, or leave it out for the default one
    17:13 pipeline_config_list[0].nodes[4].inputs[0]: Pipeline definition has reference to missing model output - node `fourth`: found the alias `alias` of `fourth`, which stands for `y`; expected an output of what that node runs: a; change data_item in the outputs of that node
    19:13 pipeline_config_list[0].outputs[0]: Pipeline definition has reference to missing model output - node `response`: found the alias `alias` of `fourth`, which stands for `y`; expected an output of what that node runs: a; change data_item in the outputs of that node
    14:12 pipeline_config_list[0].nodes[3].inputs: Pipeline definition contains a cycle - node `fourth`: found fourth -> third -> fourth; expected no way from a node back to itself; take one of these connections away
    ");
}

#[test]
fn shapes_are_reported_with_what_splits_and_gathers_them() {
    insta::assert_snapshot!(reported(
        "in i\nd = @four(b < request.i) -> a; split 3\nx = wide(b < d.a) -> a\n\
         t = text(b < x.a) -> a\ng = gather3(b < x.a) -> a; gather d\nout o < g.a\nout p < t.a"
    ), @"
    4:77 pipeline_config_list[0].nodes[0].demultiply_count: Demultiplication count does not match tensor first dimension - node `d`: found 3, and the output `a` of shape (4,1,10); expected 4, as the first dimension says; make them equal, or set demultiply_count to -1
    8:13 pipeline_config_list[0].nodes[1].inputs[0]: Invalid input shape - node `x`: found FP32 (4,1,10) from `d`, of which the first dimension is split off; expected (1,20); connect an output of the same shape, or put a node between
    11:13 pipeline_config_list[0].nodes[2].inputs[0]: Invalid input shape - node `t`: found FP32 (1,20) from `x`; expected (-1); connect an output of the same shape, or put a node between
    11:13 pipeline_config_list[0].nodes[2].inputs[0]: Invalid input precision - node `t`: found FP32 (1,20) from `x`; expected STRING (-1); connect an output of the same type, or put a node between
    11:13 pipeline_config_list[0].nodes[2].inputs[0]: Functionality not implemented - node `t`: found strings from `x`; expected numbers between nodes; connect strings to the request or the response only
    14:13 pipeline_config_list[0].nodes[3].inputs[0]: Invalid input shape - node `g`: found FP32 (1,20) from `x`; expected (3,1,10), of which the first dimension is what is gathered; connect an output of the same shape, or put a node between
    16:58 pipeline_config_list[0].outputs[1]: Demultiplexer and gather nodes are not in LIFO order - node `response`: found `p` from within `d`, though `d` is gathered on another way (there is a path that does not gather from all demultiplexers); expected each level closed before the one around it, on every way alike; take `p` from `g`, which gathers from `d`, or from a node behind it
    ");
}

#[test]
fn levels_are_reported_by_their_names() {
    insta::assert_snapshot!(reported(
        "in i, j\nd = @four(b < request.i) -> a; split 4\ne = @three(b < d.a) -> a; split 3\n\
         x = gather4(b < e.a) -> a; gather d\ny = two(x < d.a, y < e.a) -> z\n\
         z = gather4(b < request.j) -> a; gather e\n\
         out o < x.a\nout p < y.z\nout q < z.a"
    ), @"
    17:13 pipeline_config_list[0].nodes[4].inputs[0]: Demultiplication count does not match tensor first dimension - node `z`: found the input `b` of shape (4,1,10); expected 3 in front: as many as `e` gives; make the first dimension and demultiply_count equal
    10:80 pipeline_config_list[0].nodes[2].gather_from_node: Demultiplexer and gather nodes are not in LIFO order - node `x`: found inputs from within `d`, `e`, gathered from `d` (a node gathers from another than the nearest demultiplexer); expected each level closed before the one around it, on every way alike; gather from `e` in a node before this one; or here, and from `d` in a node behind it
    14:58 pipeline_config_list[0].nodes[3].inputs[1]: Demultiplexer and gather nodes are not in LIFO order - node `y`: found `x` from within `d`, and `y` from within `d`, `e` (a node has inputs of different demultiplexing levels); expected each level closed before the one around it, on every way alike; take `y` through a node that gathers from `e`: gather_from_node here would gather all inputs alike
    16:80 pipeline_config_list[0].nodes[4].gather_from_node: Demultiplexer and gather nodes are not in LIFO order - node `z`: found inputs from outside all demultiplexers, gathered from `e` (a node gathers from a demultiplexer that is not in its path); expected each level closed before the one around it, on every way alike; take all inputs from within `e`, or take gather_from_node away
    ");
    insta::assert_snapshot!(reported(
        "in i\nd = @four(b < request.i) -> a; split 4\n\
         g = gather4(b < d.a) -> a; gather d\nout o < g.a\nout p < d.a"
    ), @"10:58 pipeline_config_list[0].outputs[1]: Demultiplexer and gather nodes are not in LIFO order - node `response`: found `p` from within `d`, though `d` is gathered on another way (there is a path that does not gather from all demultiplexers); expected each level closed before the one around it, on every way alike; take `p` from `g`, which gathers from `d`, or from a node behind it");
}

#[test]
fn cycles_and_loose_ends_are_reported_with_their_nodes() {
    insta::assert_snapshot!(reported(
        "in i\na = two(x < request.i, y < c.a) -> z\nb = dummy(b < a.z) -> a\n\
         c = dummy(b < b.a) -> a\nloose = dummy(b < request.i) -> a\n\
         self = dummy(b < self.a) -> a\nout o < a.z"
    ), @"
    8:12 pipeline_config_list[0].nodes[1].inputs: Pipeline definition contains a cycle - node `b`: found b -> c -> a -> b; expected no way from a node back to itself; take one of these connections away
    17:12 pipeline_config_list[0].nodes[4].inputs: Pipeline definition contains a cycle - node `self`: found self -> self; expected no way from a node back to itself; take one of these connections away
    13:10 pipeline_config_list[0].nodes[3].name: Pipeline definition has unconnected nodes - node `loose`: found no way from it to the response; expected a connection to the response, or to a node that has one; use an output of it, or take it away
    16:10 pipeline_config_list[0].nodes[4].name: Pipeline definition has unconnected nodes - node `self`: found no way from it to the response; expected a connection to the response, or to a node that has one; use an output of it, or take it away
    ");
}

#[test]
fn custom_nodes_are_reported_with_what_failed() {
    insta::assert_snapshot!(reported(
        "in i\na = @bad_init(b < request.i) -> a\nb = @bad_call(b < request.i) -> a\n\
         c = @bad_handle(b < request.i) -> a\nd = @bad_count(b < request.i) -> a\n\
         out o < a.a\nout p < b.a\nout q < c.a\nout r < d.a"
    ), @"
    4:49 pipeline_config_list[0].nodes[0].library_name: Failure during custom node library initialization - node `a`: found 7 from `initialize` of the library `bad_init`; expected 0; see the node's params, and what the library prints
    7:49 pipeline_config_list[0].nodes[1].library_name: Custom node failed on metadata call - node `b`: found 1 from `getInputsInfo`; expected 0; see the node's params, and what the library prints
    10:49 pipeline_config_list[0].nodes[2].library_name: Custom node library has returned corrupted outputs handle - node `c`: found no list from `getOutputsInfo`; expected a list of tensors; see the node's params, and what the library prints
    13:49 pipeline_config_list[0].nodes[3].library_name: Custom node library has produced corrupted number of outputs - node `d`: found 0 tensors from `getOutputsInfo`; expected at least 1; see the node's params, and what the library prints
    ");
}

#[test]
fn warnings_have_places() {
    let text = "in i\na = nchw(b < request.i) -> a, a\nb = nhwc(b < a.a) -> a\nout o < b.a";
    let warnings = check(&pipeline(text), &Known).unwrap().warnings;
    let warnings: Vec<String> = warnings.iter().map(ToString::to_string).collect();
    insta::assert_snapshot!(warnings.join("\n"), @"
    6:14 pipeline_config_list[0].nodes[0].outputs[0]: the alias `a` comes again further down; that one counts
    8:13 pipeline_config_list[0].nodes[1].inputs[0]: the input has the layout NHWC, what comes from `a` has NCHW; axes are not transposed
    ");
}
