//! Next step for an exception of a handler that is one of a first attempt: what the author took a tensor, or its list, for.

/// Advice on the arguments of `execute`.
const CALLED: &str = "the server calls `execute(self, inputs)`, with a list of pyovms.Tensor, and `execute(self, inputs, \
                      state)` where the class has a method `create_state(self)`";

/// Advice on what else a tensor has.
const HAS: &str = "a pyovms.Tensor has `name`, `shape`, `datatype`, `data`, and `size`; `texts()` gives the strings of BYTES, \
                   `elements()` their bytes, and `numpy.asarray(tensor)` the numbers of others";

/// Parts of exceptions, all of which are in the text, and the next step for each.
const KNOWN: [(&[&str], &str); 7] = [
    (
        &["'memoryview' object has no attribute"],
        "`data` is the bytes of a tensor as they lie in memory: `texts()` of the tensor gives the strings of BYTES, and \
         `numpy.asarray(tensor)` the numbers of others",
    ),
    (&["'pyovms.Tensor' object has no attribute"], HAS),
    (&["'pyovms.Tensor' object is not subscriptable"], HAS),
    (
        &["list indices must be integers or slices, not str"],
        "`inputs` is a list: `{tensor.name: tensor for tensor in inputs}` has its tensors by their names",
    ),
    (
        &["it returned coroutine"],
        "the server does not await `execute`: write `def`, not `async def`, and `asyncio.run(…)` for what is awaited in it",
    ),
    (
        &["execute() missing ", " required positional argument"],
        CALLED,
    ),
    (&["execute() takes ", " positional argument"], CALLED),
];

/// Returns the next step for the error of a graph that a handler's exception is in.
pub(super) fn of_handler(error: &str) -> Option<String> {
    let is_in = |(parts, _): &&(&[&str], &str)| parts.iter().all(|part| error.contains(part));
    let found = KNOWN.iter().find(is_in);
    found.map(|(_, hint)| (*hint).to_owned())
}
