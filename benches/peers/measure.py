"""The measurement: all servers with one model at a time, and turns of load in alternation."""

import contextlib
import statistics
from dataclasses import asdict, dataclass, field

import numpy as np

from . import clients, wires
from .processes import OtherWork
from .servers import WITHOUT, Running, StartError

BASE = "ovms"
CLIENTS = (1, 16)
# Relative difference of answers from those of ovms: the same numbers, but perhaps of other threads.
TOLERANCE = 1e-4


@dataclass(frozen=True)
class Turn:
    """One turn of one server: requests/s, ms, µs of its processor time for a request, and MB."""

    rate: float
    p50: float
    p99: float
    cpu: float | None = None
    memory: float | None = None


@dataclass
class Cell:
    """All turns of a load: a server has turns, or a failure with the reason."""

    load: str
    model: str
    wire: str
    clients: int
    turns: dict = field(default_factory=dict)
    failures: dict = field(default_factory=dict)
    # Share of the machine that other work took.
    others: float = 0.0

    def median(self, server, figure):
        """The median of a figure; `None` where the load has none."""
        values = [getattr(turn, figure) for turn in self.turns[server]]
        return None if None in values else statistics.median(values)

    def ratio(self, server, figure):
        """The median of what the figure is over that of ovms in the same round."""
        own = [getattr(turn, figure) for turn in self.turns.get(server, [])]
        base = [getattr(turn, figure) for turn in self.turns.get(BASE, [])]
        pairs = [(a, b) for a, b in zip(own, base, strict=False) if a is not None and b]
        return statistics.median(a / b for a, b in pairs) if pairs else None

    def document(self):
        """The cell for JSON."""
        return asdict(self)


@dataclass(frozen=True)
class Plan:
    """What to measure, and how long."""

    servers: tuple
    models: tuple
    seconds: float
    rounds: int
    tools: object
    folder: object
    say: object


def alternate(plan, cell, turn_of):
    """Takes turns, round after round; the server that comes first changes. One that fails is out."""
    for index in range(plan.rounds):
        order = [*turn_of]
        shift = index % len(order) if order else 0
        for name in order[shift:] + order[:shift]:
            try:
                cell.turns.setdefault(name, []).append(turn_of[name]())
            except clients.LoadError as error:
                cell.failures[name] = str(error)
                cell.turns.pop(name, None)
                del turn_of[name]


def measure(plan):
    """Measures all; gives the cells, and why servers are not in them."""
    cells, reasons = [], {}
    for model in plan.models:
        with contextlib.ExitStack() as stack:
            running = start(plan, model, stack, reasons)
            for wire in model.wires:
                cells += of_wire(plan, model, wire, running, reasons)
            if model.with_perf_analyzer:
                cells += with_perf_analyzer(plan, model, running, reasons)
    return cells, reasons


def start(plan, model, stack, reasons):
    """Starts the servers, and keeps the answers of ovms for nginx, which therefore comes last."""
    running = {}
    last = [name for name in plan.servers if name == "nginx"]
    for names in ([BASE], [name for name in plan.servers if name not in (BASE, *last)], last):
        started = {}
        for name in names:
            folder = plan.folder / model.name / name
            try:
                server = Running(name, plan.tools, model, folder)
                stack.callback(server.stop)
                started[name] = server
            except (StartError, OSError) as error:
                reasons[name] = str(error)
        for name, server in started.items():
            plan.say(f"{model.name}: waiting for {name}")
            try:
                server.wait_ready()
                running[name] = server
                plan.tools.reported[name] = server.version()
            except StartError as error:
                reasons[name] = str(error)
                server.stop()
        if names == [BASE]:
            if BASE not in running:
                raise StartError(f"ovms: {reasons[BASE]}")
            for wire in model.wires:
                plan.tools.answers[model.name, wire] = wires.ask(wire, model, running[BASE].ports)
    return running


def check(wire, model, server, expected):
    """Asks once; gives the length of the answer, or raises if it is another one than that of ovms."""
    try:
        answer = wires.ask(wire, model, server.ports)
    except Exception as error:  # noqa: BLE001: of gRPC, HTTP, JSON, or the answer's form
        said = str(getattr(error, "details", lambda: error)()) or repr(error)
        raise clients.LoadError(f"refused: {said.splitlines()[0][:120]}") from error
    if answer.tensor.shape != expected.shape or not np.allclose(answer.tensor, expected, TOLERANCE, 1e-6):
        raise clients.LoadError("another answer than that of ovms")
    return len(answer.body)


def of_wire(plan, model, wire, running, reasons):
    """The cells of one wire, by h2load."""
    expected = plan.tools.answers[model.name, wire].tensor
    loads, lengths = {}, {}
    failures = {name: reasons[name] for name in plan.servers if name not in running}
    program = plan.tools.tool("h2load")
    for name, server in running.items():
        if (name, wire) in WITHOUT:
            failures[name] = WITHOUT[name, wire]
            continue
        try:
            length = check(wire, model, server, expected)
            lengths[name] = length if wire == "grpc" else None
            loads[name] = clients.H2load(program, wire, model, server.ports, server.folder)
        except clients.LoadError as error:
            failures[name] = str(error)
    for count in CLIENTS:
        cell = Cell("h2load", model.name, wire, count, failures=dict(failures))
        plan.say(f"{model.name}, {wires.NAMES[wire]}, {counted(count)}")
        turns = {}
        for name, load in loads.items():
            try:
                requests = load.calibrate(count, plan.seconds, lengths[name])
                turns[name] = turn(load, running[name], count, requests, lengths[name])
            except clients.LoadError as error:
                cell.failures[name] = str(error)
        with OtherWork() as other:
            alternate(plan, cell, turns)
        cell.others = other.share
        yield cell


def counted(count):
    """A number of clients in words."""
    return f"{count} client" if count == 1 else f"{count} clients"


def turn(load, server, count, requests, length):
    """A function that takes one turn."""

    def take():
        before = server.cpu_seconds()
        done = load.run(count, requests, length)
        cpu = (server.cpu_seconds() - before) / done.count * 1e6
        return Turn(done.rate, done.p50, done.p99, cpu, server.memory_mb())

    return take


def with_perf_analyzer(plan, model, running, reasons):
    """The cells of perf_analyzer: gRPC, and without processor time, as it does not say how much it sent."""
    try:
        program, libraries = plan.tools.perf_analyzer()
    except StartError as error:
        reasons["perf_analyzer"] = str(error)
        for count in CLIENTS:
            out = dict.fromkeys(plan.servers, f"perf_analyzer is {error}")
            yield Cell("perf_analyzer", model.name, "grpc", count, failures=out)
        return
    out = {name: reasons[name] for name in plan.servers if name not in running}
    if "nginx" in running:
        out["nginx"] = "has no metadata of a model, which perf_analyzer asks for"
    for count in CLIENTS:
        plan.say(f"{model.name}, perf_analyzer, {counted(count)}")
        cell = Cell("perf_analyzer", model.name, "grpc", count, failures=dict(out))

        def take(server, count=count):
            done = clients.perf_analyzer(
                program, libraries, model, server.ports, count, plan.seconds, server.folder
            )
            return Turn(done.rate, done.p50, done.p99)

        turns = {
            name: (lambda server=server: take(server))
            for name, server in running.items()
            if name not in out
        }
        with OtherWork() as other:
            alternate(plan, cell, turns)
        cell.others = other.share
        # A server that it cannot talk to fails at its first turn, and need not be tried again.
        out |= cell.failures
        yield cell

