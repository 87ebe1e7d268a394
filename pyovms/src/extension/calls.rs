//! The calls of a worker: handlers, their instances, and what they return.

use std::{
    cell::{Cell, RefCell},
    collections::{HashMap, HashSet},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, RwLock,
        atomic::{AtomicBool, Ordering},
    },
    time::Instant,
};

use pyo3::{
    exceptions::{PyRuntimeError, PyTypeError},
    intern,
    prelude::*,
    types::{PyAny, PyDict, PyIterator, PyList, PyNone, PyType, iterator::PySendResult},
};

use super::{
    contents,
    crew::LONG,
    generators::{After, Generators},
    kind,
    link::Link,
    loading::Tools,
    results::Objects,
    tensor::PyTensor,
};
use crate::{
    memory::{Shared, forks},
    message::{
        Done, Empty, Execute, Load, Loaded, Log, Numbered, Order, Outcome, Output, Outputs, Raised,
        Report, Set, Tensor,
    },
};

/// Begins the error of a `finalize` that raises.
const FINALIZE: &str = "Failed to process python node finalize method";

/// The handler of a node.
pub(super) struct Node {
    pub(super) name: Arc<str>,
    pub(super) space: Py<PyAny>,
    object: Py<PyAny>,
    is_stateful: bool,
    is_destroying: bool,
    pub(super) outputs: Vec<Output>,
    /// Indicates that its last call took long.
    is_slow: AtomicBool,
}

/// Everything that calls use.
pub(super) struct Calls {
    link: Arc<Link>,
    shared: Arc<Shared>,
    pub(super) tools: Tools,
    nodes: RwLock<HashMap<u32, Arc<Node>>>,
    /// States of instances, by their number.
    states: Mutex<HashMap<u64, Py<PyAny>>>,
    pub(super) objects: Objects,
    pub(super) generators: Generators,
    /// Lines of which no call is to begin any more.
    abandoned: Mutex<HashSet<u64>>,
}

thread_local! {
    /// Indicates that this thread has printed the beginning of a line.
    static HAS_BEGUN_LINE: Cell<bool> = const { Cell::new(false) };
    /// The node whose code this thread runs.
    static CURRENT: RefCell<Option<Arc<str>>> = const { RefCell::new(None) };
    /// The trace of the request that it runs for, if that is traced.
    static TRACE: RefCell<Option<Arc<TraceHeaders>>> = const { RefCell::new(None) };
}

/// Headers of W3C Trace Context.
pub(super) struct TraceHeaders {
    pub(super) traceparent: String,
    pub(super) tracestate: String,
}

/// Returns the headers of the trace of the request that this thread runs code for, if it is traced.
pub(super) fn current_trace() -> Option<Arc<TraceHeaders>> {
    TRACE.with_borrow(Clone::clone)
}

/// The trace of a thread, until it is dropped.
struct Traced(Option<Arc<TraceHeaders>>);

impl Traced {
    fn new(trace: Option<Arc<TraceHeaders>>) -> Self {
        Self(TRACE.replace(trace))
    }
}

impl Drop for Traced {
    fn drop(&mut self) {
        TRACE.set(self.0.take());
    }
}

/// Returns the name of the node whose code this thread runs.
pub(super) fn current_node() -> Option<String> {
    CURRENT.with_borrow(|name| name.as_ref().map(ToString::to_string))
}

/// The node of a thread, until it is dropped.
pub(super) struct Running(Option<Arc<str>>);

impl Running {
    pub(super) fn new(name: &Arc<str>) -> Self {
        Self(CURRENT.replace(Some(Arc::clone(name))))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        CURRENT.set(self.0.take());
    }
}

/// Takes in that this thread has printed the beginning of a line.
pub(super) fn begin_line() {
    HAS_BEGUN_LINE.set(true);
}

/// Refuses what a generator returns at its end, unless there is nothing in it.
fn is_nothing(value: &Bound<'_, PyAny>) -> PyResult<()> {
    let is_empty = value.cast::<PyList>().is_ok_and(|list| list.is_empty());
    if value.is_none() || is_empty {
        return Ok(());
    }
    Err(PyTypeError::new_err(format!(
        "a generator returned a value of type {}, which nobody gets; yield it",
        kind(value)
    )))
}

/// Returns whether the server takes what a call of a line has given. It says itself what is wrong with names, and with a
/// generator, which none of a line may give.
fn is_taken(outcome: &Outcome, known: &[Output]) -> bool {
    match outcome {
        Outcome::Outputs(Outputs { tensors }) => tensors.iter().enumerate().all(|(index, it)| {
            let is_repeated = || tensors[..index].iter().any(|before| before.name == it.name);
            known.iter().any(|output| output.name == it.name) && !is_repeated()
        }),
        Outcome::Raised(_) | Outcome::Generator(_) => false,
        _ => true,
    }
}

impl Calls {
    pub(super) fn new(link: Arc<Link>, shared: Arc<Shared>, tools: Tools) -> Self {
        Self {
            link,
            shared,
            tools,
            nodes: RwLock::default(),
            states: Mutex::default(),
            objects: Objects::default(),
            generators: Generators::default(),
            abandoned: Mutex::default(),
        }
    }

    pub(super) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// Sends what is to be sent.
    pub(super) fn flush(&self) {
        self.link.flush();
    }

    /// Adds a report, and sends those that wait if they are many.
    pub(super) fn say(&self, py: Python<'_>, report: Report) {
        if self.link.say(report) {
            py.detach(|| self.link.flush());
        }
    }

    fn node(&self, number: u32) -> PyResult<Arc<Node>> {
        let nodes = self.nodes.read().unwrap_or_else(PoisonError::into_inner);
        let node = nodes.get(&number).cloned();
        node.ok_or_else(|| PyRuntimeError::new_err("the handler of the node is finalized"))
    }

    fn states(&self) -> MutexGuard<'_, HashMap<u64, Py<PyAny>>> {
        self.states.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn abandoned(&self) -> MutexGuard<'_, HashSet<u64>> {
        self.abandoned
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Skips the calls of a line that have not begun.
    pub(super) fn abandon(&self, line: u64) {
        self.abandoned().insert(line);
    }

    /// Returns whether another thread had better go on at once.
    pub(super) fn takes_long(&self, order: &Order) -> bool {
        let number = match order {
            Order::Execute(call) => call.node,
            Order::Load(_) | Order::Open(_) | Order::Close(_) | Order::Finalize(_) => return true,
            _ => return false,
        };
        self.node(number)
            .is_ok_and(|node| node.is_slow.load(Ordering::Relaxed))
    }

    /// Runs an order to its end.
    pub(super) fn run(&self, py: Python<'_>, order: Order) {
        match order {
            Order::Load(load) => self.load(py, load),
            Order::Open(it) => {
                self.done(py, it.call, it.node, |node| {
                    self.open(py, node, it.instance)
                });
            }
            Order::Close(it) => {
                self.done(py, it.call, it.node, |node| {
                    self.close(py, node, it.instance)
                });
            }
            Order::Finalize(it) => {
                self.done(py, it.call, it.node, |node| {
                    self.finalize(py, node, it.node)
                });
            }
            Order::Execute(mut it) => {
                let (call, credits, line) = (it.call, it.credits, it.line);
                // All of them, whatever comes of the call: what is in shared memory is given back then.
                let inputs = std::mem::take(&mut it.inputs).into_iter();
                let inputs: Vec<_> = inputs.map(|tensor| self.received(py, tensor)).collect();
                if line > 0 && self.abandoned().contains(&line) {
                    let outcome = Some(Outcome::Ended(Empty {}));
                    return self.say(py, Report::Done(Done { call, outcome }));
                }
                let goes_on =
                    self.done(py, call, it.node, |node| self.execute(py, node, it, inputs));
                if !goes_on && line > 0 {
                    self.abandon(line);
                }
                if credits > 0 {
                    self.go_on(py, call, credits);
                }
            }
            Order::Next(next) => self.go_on(py, next.generator, next.credits),
            Order::CloseGenerator(it) => {
                if let Some((object, node, trace)) = self.generators.close(it.number) {
                    let _traced = Traced::new(trace);
                    self.end_generator(py, it.number, &object, &node, None);
                }
            }
            Order::Release(object) => drop(self.objects.take(object.number)),
            // Behind all calls of the line.
            Order::Abandon(line) => drop(self.abandoned().remove(&line.number)),
            // Done where it was read.
            Order::Arena(_) => {}
        }
    }

    /// Makes a call of a node, and reports how it went; returns whether the next one of its line may begin.
    fn done(
        &self,
        py: Python<'_>,
        call: u64,
        node: u32,
        run: impl FnOnce(&Arc<Node>) -> PyResult<Outcome>,
    ) -> bool {
        let node = self.node(node);
        let outcome = match &node {
            Ok(node) => {
                let _running = Running::new(&node.name);
                let begun = Instant::now();
                let outcome = run(node);
                self.leave_if_forked(py, &outcome);
                self.end_lines(py);
                node.is_slow
                    .store(begun.elapsed() > LONG, Ordering::Relaxed);
                outcome.unwrap_or_else(|error| {
                    Outcome::Raised(self.tools.raised_in_call(py, &error, &node.space))
                })
            }
            Err(error) => Outcome::Raised(self.tools.raised(py, error, None)),
        };
        let goes_on = node.is_ok_and(|node| is_taken(&outcome, &node.outputs));
        let outcome = Some(outcome);
        self.say(py, Report::Done(Done { call, outcome }));
        contents::said();
        goes_on
    }

    /// Ends the process if it is none of the server's but was forked by code of a handler, which has come back here: the
    /// link belongs to the worker, which answers the call.
    fn leave_if_forked<T>(&self, py: Python<'_>, result: &PyResult<T>) {
        if forks() > 0 {
            self.tools.leave(py, result.as_ref().err());
        }
    }

    /// Writes what a call has printed without a line end.
    fn end_lines(&self, py: Python<'_>) {
        if HAS_BEGUN_LINE.take() {
            self.tools.end_lines(py);
        }
    }

    fn load(&self, py: Python<'_>, load: Load) {
        let call = load.call;
        let outcome = self
            .loaded(py, load)
            .unwrap_or_else(|error| Outcome::Raised(self.tools.raised(py, &error, None)));
        let outcome = Some(outcome);
        self.say(py, Report::Done(Done { call, outcome }));
    }

    fn loaded(&self, py: Python<'_>, load: Load) -> PyResult<Outcome> {
        let space = self.tools.space(py, &load.path)?;
        let inspects = load.inspect;
        let made = self.make(py, load, &space);
        self.leave_if_forked(py, &made);
        self.end_lines(py);
        let is_kept = matches!(made, Ok((_, true)));
        // Before the names of its modules are forgotten.
        let outcome = match made {
            Ok((outcome, _)) => outcome,
            // A check has a report of its own.
            Err(error) if inspects => {
                Outcome::Raised(self.tools.raised(py, &error, Some(space.as_unbound())))
            }
            Err(error) => {
                Outcome::Raised(self.tools.raised_in_call(py, &error, space.as_unbound()))
            }
        };
        if !is_kept {
            space.call_method0("close")?;
        }
        Ok(outcome)
    }

    /// Runs the file, and makes the object; returns whether that is kept.
    fn make(
        &self,
        py: Python<'_>,
        load: Load,
        space: &Bound<'_, PyAny>,
    ) -> PyResult<(Outcome, bool)> {
        let name = Arc::<str>::from(&*load.name);
        let _running = Running::new(&name);
        let class = space.call_method0("run")?;
        if !class.is_instance_of::<PyType>() {
            return Ok((Outcome::NoClass(Empty {}), false));
        }
        let has = |name: &str| {
            let method = class.getattr_opt(name).ok().flatten();
            method.is_some_and(|method| method.is_callable())
        };
        let mut misfits = self.tools.misfits(&class, space);
        let mut strays = self.tools.strays(&class, space);
        if !has("execute") {
            // Without it nothing works, whatever its name was meant to be.
            misfits.extend(strays.extract_if(.., |stray| stray.method == "execute"));
            // A check says more of something else with that name.
            let is_named = load.inspect && misfits.iter().any(|misfit| misfit.method == "execute");
            let outcome = match is_named {
                true => Outcome::Loaded(Loaded {
                    misfits,
                    ..Loaded::default()
                }),
                false => Outcome::NoExecute(Empty {}),
            };
            return Ok((outcome, false));
        }
        let inspect = py.import("inspect")?;
        let generates =
            inspect.call_method1("isgeneratorfunction", (class.getattr("execute")?,))?;
        let loaded = Loaded {
            stateful: has("create_state"),
            generates: generates.is_truthy()?,
            misfits,
            strays,
        };
        if load.inspect {
            return Ok((Outcome::Loaded(loaded), false));
        }
        let object = space.call_method1("call", (&class,))?;
        let names: Vec<&str> = load
            .outputs
            .iter()
            .map(|output| output.name.as_str())
            .collect();
        let reported = PyDict::new(py);
        reported.set_item("node_name", &load.name)?;
        reported.set_item("input_names", &load.inputs)?;
        reported.set_item("output_names", &names)?;
        reported.set_item("outputs_names", &names)?;
        reported.set_item("base_path", space.getattr("folder")?)?;
        if let Some(params) = &load.params {
            let dict = PyDict::new(py);
            for pair in &params.pairs {
                dict.set_item(&pair.key, &pair.value)?;
            }
            reported.set_item("params", dict)?;
        }
        let node = Arc::new(Node {
            name: Arc::clone(&name),
            space: space.clone().unbind(),
            object: object.clone().unbind(),
            is_stateful: loaded.stateful,
            is_destroying: has("destroy_state"),
            outputs: load.outputs,
            is_slow: AtomicBool::new(false),
        });
        if let Some(initialize) = object.getattr_opt("initialize")?
            && let Err(error) = space.call_method1("call", (initialize, reported))
        {
            let mut raised = self.tools.raised_in_call(py, &error, space.as_unbound());
            // Behind the reason: mostly it misses what `initialize` did not come to.
            if let Some(also) = self.end(py, &node) {
                raised.traceback = [&raised.traceback, FINALIZE, ":\n", &also.traceback].concat();
            }
            return Ok((Outcome::Raised(raised), false));
        }
        let mut nodes = self.nodes.write().unwrap_or_else(PoisonError::into_inner);
        nodes.insert(load.node, node);
        Ok((Outcome::Loaded(loaded), true))
    }

    /// Calls `finalize`; shows and returns what it raises.
    fn end(&self, py: Python<'_>, node: &Arc<Node>) -> Option<Raised> {
        let _running = Running::new(&node.name);
        let ended = node
            .object
            .bind(py)
            .getattr_opt("finalize")
            .and_then(|method| method.map(|method| method.call0()).transpose());
        let error = ended.err()?;
        Some(self.tools.warned(py, &error, &node.space, FINALIZE))
    }

    fn finalize(&self, py: Python<'_>, node: &Arc<Node>, number: u32) -> PyResult<Outcome> {
        let removed = {
            let mut nodes = self.nodes.write().unwrap_or_else(PoisonError::into_inner);
            nodes.remove(&number)
        };
        if removed.is_none() {
            return Ok(Outcome::Ended(Empty {}));
        }
        let raised = self.end(py, node);
        node.space.bind(py).call_method0("close")?;
        Ok(raised.map_or(Outcome::Ended(Empty {}), Outcome::Raised))
    }

    fn open(&self, py: Python<'_>, node: &Node, instance: u64) -> PyResult<Outcome> {
        let state = node
            .object
            .bind(py)
            .call_method0(intern!(py, "create_state"))?;
        self.states().insert(instance, state.unbind());
        Ok(Outcome::Ended(Empty {}))
    }

    fn close(&self, py: Python<'_>, node: &Node, instance: u64) -> PyResult<Outcome> {
        let state = self.states().remove(&instance);
        if let Some(state) = state.filter(|_| node.is_destroying) {
            let object = node.object.bind(py);
            let destroyed = object.call_method1(intern!(py, "destroy_state"), (state.bind(py),));
            if let Err(error) = destroyed {
                self.log(
                    py,
                    &error,
                    node,
                    "Failed to process python node destroy_state method",
                );
            }
        }
        Ok(Outcome::Ended(Empty {}))
    }

    fn received<'py>(&self, py: Python<'py>, tensor: Tensor) -> PyResult<Bound<'py, PyTensor>> {
        if tensor.object == 0 {
            return contents::received(py, &self.shared, tensor);
        }
        match self.objects.get(py, tensor.object) {
            Some(object) => Ok(object),
            None if tensor.contents.is_none() => Err(PyRuntimeError::new_err(format!(
                "input {:?} is not in this worker any more",
                tensor.name
            ))),
            None => contents::received(py, &self.shared, tensor),
        }
    }

    fn execute<'py>(
        &self,
        py: Python<'py>,
        node: &Arc<Node>,
        call: Execute,
        inputs: Vec<PyResult<Bound<'py, PyTensor>>>,
    ) -> PyResult<Outcome> {
        let trace = (!call.traceparent.is_empty()).then(|| {
            Arc::new(TraceHeaders {
                traceparent: call.traceparent,
                tracestate: call.tracestate,
            })
        });
        let _traced = Traced::new(trace.clone());
        let inputs = inputs.into_iter().collect::<PyResult<Vec<_>>>()?;
        let inputs = PyList::new(py, inputs)?;
        let execute = intern!(py, "execute");
        let object = node.object.bind(py);
        let done = match node.is_stateful {
            false => object.call_method1(execute, (inputs,)),
            true => {
                let state = {
                    let states = self.states();
                    states.get(&call.instance).map(|state| state.clone_ref(py))
                };
                let named = PyDict::new(py);
                named.set_item(intern!(py, "state"), state)?;
                object.call_method(execute, (inputs,), Some(&named))
            }
        };
        // Before what it returns is shared.
        self.leave_if_forked(py, &done);
        let done = done?;
        if let Ok(list) = done.cast::<PyList>() {
            let outputs = self.outputs(
                list,
                &node.outputs,
                "execute must return a list of pyovms.Tensor",
            );
            return outputs.map(Outcome::Outputs);
        }
        if done.is_none() && !call.complete {
            return Ok(Outcome::Ended(Empty {}));
        }
        if done.cast::<PyIterator>().is_ok() {
            // Where there may be none, nobody closes it either.
            if call.credits > 0 {
                self.generators.add(call.call, done.unbind(), node, trace);
            }
            return Ok(Outcome::Generator(Numbered { number: call.call }));
        }
        Err(PyTypeError::new_err(format!(
            "execute must return a list of pyovms.Tensor or a generator; it returned {}",
            kind(&done)
        )))
    }

    /// Gives a generator leave to go on, and reports each of its sets before it computes the next.
    fn go_on(&self, py: Python<'_>, generator: u64, credits: u32) {
        let Some((object, node, trace)) = self.generators.begin(generator, credits) else {
            return;
        };
        let _running = Running::new(&node.name);
        let _traced = Traced::new(trace);
        loop {
            let iterator = object.bind(py).cast::<PyIterator>().map_err(PyErr::from);
            let next = iterator.and_then(|it| it.send(&PyNone::get(py)));
            self.leave_if_forked(py, &next);
            self.end_lines(py);
            let set = next.and_then(|next| match next {
                PySendResult::Next(set) => self.yielded(&set, &node.outputs).map(Some),
                PySendResult::Return(value) => is_nothing(&value).map(|()| None),
            });
            match set {
                Ok(Some(outputs)) => self.set(py, generator, Some(outputs), None),
                Ok(None) => {
                    self.generators.remove(generator);
                    return self.set(py, generator, None, None);
                }
                Err(error) => {
                    self.generators.remove(generator);
                    return self.end_generator(py, generator, &object, &node, Some(&error));
                }
            }
            match self.generators.after_set(generator) {
                After::GoOn => {}
                After::Wait => return,
                After::Close => return self.end_generator(py, generator, &object, &node, None),
            }
        }
    }

    /// Reports a set, or the end of a generator, at once.
    fn set(
        &self,
        py: Python<'_>,
        generator: u64,
        outputs: Option<Outputs>,
        raised: Option<Raised>,
    ) {
        self.link.say(Report::Set(Set {
            generator,
            outputs,
            raised,
        }));
        contents::said();
        py.detach(|| self.link.flush());
    }

    /// Closes a generator, and reports its end; iterators of other kinds have nothing to close.
    fn end_generator(
        &self,
        py: Python<'_>,
        generator: u64,
        object: &Py<PyAny>,
        node: &Arc<Node>,
        error: Option<&PyErr>,
    ) {
        let _running = Running::new(&node.name);
        let raised = error.map(|error| self.tools.raised_in_call(py, error, &node.space));
        let closed = object
            .bind(py)
            .getattr_opt(intern!(py, "close"))
            .and_then(|close| close.map(|close| close.call0()).transpose());
        if let Err(error) = closed {
            let text = format!("Failed to close the generator of python node {}", node.name);
            self.log(py, &error, node, &text);
        }
        self.set(py, generator, None, raised);
    }

    /// Sends the server an error for its log, for which no call fails.
    fn log(&self, py: Python<'_>, error: &PyErr, node: &Node, text: &str) {
        let raised = self.tools.warned(py, error, &node.space, text);
        let (node, text) = (node.name.to_string(), text.to_owned());
        let raised = Some(raised);
        self.say(py, Report::Log(Log { node, text, raised }));
    }
}
