"""The comparison with other servers (`make bench-peers`): what it reads and computes, and a short run where nginx and h2load are."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from conftest import PROGRAM, ROOT, program

sys.path.insert(0, str(ROOT / "benches"))
from peers import clients, processes, table, wires  # noqa: E402
from peers.__main__ import MODELS, names  # noqa: E402
from peers.clients import H2load, Load, LoadError  # noqa: E402
from peers.measure import Cell, Turn, alternate  # noqa: E402
from peers.servers import SERVERS, Ports  # noqa: E402

LIMIT = 60.0
H2LOAD = """\
starting benchmark...
Application protocol: h2c

finished in 1.45s, 6892.67 req/s, 1.12MB/s
requests: 4 total, 4 started, 4 done, {succeeded} succeeded, {failed} failed, {failed} errored, 0 timeout
status codes: {succeeded} 2xx, 0 3xx, 0 4xx, 0 5xx
traffic: 85.20KB (87248) total, 55.27KB (56592) headers (space savings 40.00%), 3.07KB ({data}) data
                     min         max         mean         sd        +/- sd
time for request:       66us      6.12ms       134us       352us    98.53%
req/s           :    1643.80     1726.10     1682.01       41.47    75.00%
"""
H2LOAD_LOG = "1\t200\t3000\n2\t200\t1000\n3\t200\t2000\n4\t200\t9500\n"
PERF_ANALYZER = """\
Concurrency,Inferences/Second,Client Send,Server Queue,p50 latency,p90 latency,p95 latency,p99 latency
16,1861.5,3,10,6470,9000,12000,28400
"""
SLEEPER = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"
# A parent with a child that uses processor time and ends, and one that lives and does not heed SIGTERM.
FAMILY = f"""
import subprocess, sys, time
burn = "import time\\nwhile time.process_time() < 0.3: pass"
subprocess.run([sys.executable, "-c", burn])
subprocess.Popen([sys.executable, "-c", {SLEEPER!r}])
print("ready", flush=True)
time.sleep(600)
"""


def said(succeeded=4, failed=0, data=40):
    """What h2load says about four requests."""
    return H2LOAD.format(succeeded=succeeded, failed=failed, data=data)


def test_h2load_is_read():
    assert clients.parse_h2load(said(), H2LOAD_LOG, 10) == Load(4, 6892.67, 2.5, 9.5)


@pytest.mark.parametrize(
    ("text", "log", "words"),
    [
        (said(succeeded=3, failed=1), H2LOAD_LOG, "1 of 4 requests failed"),
        # An error of gRPC: status 200, and no message.
        (said(data=0), H2LOAD_LOG, "answers of 0.0 bytes, expected 10"),
        (said(), H2LOAD_LOG.replace("200", "500", 1), "a status that is not 200"),
        (said(), H2LOAD_LOG[:11], "has 1 lines of 4"),
        ("Unknown option\n", "", "Unknown option"),
    ],
)
def test_failures_of_requests_are_no_figures(text, log, words):
    with pytest.raises(LoadError, match=words):
        clients.parse_h2load(text, log, 10)


def test_perf_analyzer_is_read():
    assert clients.parse_perf_analyzer(PERF_ANALYZER) == Load(0, 1861.5, 6.47, 28.4)
    with pytest.raises(LoadError):
        clients.parse_perf_analyzer(PERF_ANALYZER.splitlines()[0])


def test_percentiles_are_of_measured_values():
    values = list(range(1, 101))
    assert [clients.percentile(values, share) for share in (0.01, 0.5, 0.99, 1)] == [1, 50, 99, 100]
    assert clients.percentile([7], 0.99) == 7


@pytest.mark.parametrize("rate", [2, 400, 100_000])
def test_a_turn_takes_about_as_long_as_asked(tmp_path, monkeypatch, rate):
    load = H2load("h2load", "json", MODELS[0], Ports(1, 2, 3), tmp_path)
    # The first requests are slow, as new connections are.
    counts = []

    def run(clients, count, answer_bytes=None):
        counts.append(count)
        return Load(count, count / (0.01 + count / rate), 1, 1)

    monkeypatch.setattr(load, "run", run)
    count = load.calibrate(16, 1.0)
    assert max(16, rate * 0.8) <= count <= max(16, rate * 1.01)
    assert sum(counts) <= 16 + rate * 0.5


@pytest.mark.parametrize("wire", wires.NAMES)
def test_requests_are_of_the_protocol(serve, wire):
    model = MODELS[0]
    server = serve(model.name)
    answer = wires.ask(wire, model, Ports(server.port, server.rest_port, 0))
    np.testing.assert_allclose(answer.tensor, model.tensor() + 1)
    assert ("inference-header-content-length" in answer.headers) == (wire == "binary")


def test_stat_of_a_name_with_brackets_and_spaces():
    fields = "S 12 13 14 0 -1 0 0 0 0 0 250 50 30 70 20 0 1 0 98765 0 0"
    ticks = processes.TICKS
    stat = processes.parse_stat(f"15 (a) b (c)) {fields}")
    assert stat == processes.Stat("S", 12, 14, 300 / ticks, 100 / ticks, 98765)


def test_families_of_processes():
    def stat(parent, session):
        return processes.Stat("S", parent, session, 0, 0, 0)

    # 12 has moved to another session, and the parent of 14 has ended.
    everything = {1: stat(0, 1), 10: stat(1, 10), 11: stat(10, 10), 12: stat(11, 12), 14: stat(1, 10), 15: stat(1, 15)}
    assert processes.below(10, everything) == {10, 11, 12, 14}
    assert processes.below(99, everything) == set()


def test_time_and_memory_are_of_all_processes_and_all_are_ended(tmp_path):
    log = tmp_path / "log"
    process = processes.start([sys.executable, "-c", FAMILY], log)
    try:
        end = time.monotonic() + LIMIT
        while "ready" not in log.read_text():
            assert process.poll() is None and time.monotonic() < end, log.read_text()
            time.sleep(0.01)
        assert 0.3 <= processes.cpu_seconds(process.pid) < 3
        everything = processes.stats()
        family = processes.below(process.pid, everything)
        assert len(family) == 2
        assert processes.memory_mb(process.pid) > 2
    finally:
        before = processes.GRACE
        processes.GRACE = 0.3
        processes.stop(process)
        processes.GRACE = before
    after = processes.stats()
    same = [pid for pid in family if pid in after and after[pid].started == everything[pid].started]
    assert all(after[pid].state == "Z" for pid in same)


def cell_of(rates, others=0.0, **failures):
    """A cell with a turn of each rate."""
    turns = {name: [Turn(rate, 1.0, 2.0, 1000 / rate, 50.0) for rate in each] for name, each in rates.items()}
    return Cell("h2load", "dummy", "grpc", 16, turns, failures, others)


def test_ratios_are_of_the_same_round():
    cell = cell_of({"ovms": [100, 200, 400], "triton": [50, 20, 200]})
    assert cell.ratio("triton", "rate") == 0.5
    assert cell.median("triton", "rate") == 50
    assert cell.ratio("triton", "cpu") == 2


def test_rows_of_a_table():
    cell = cell_of({"ovms": [100, 200, 400], "triton": [50, 20, 200]}, kserve="pip: no | such")
    assert list(table.rows(cell, ["ovms", "triton", "kserve"])) == [
        "| gRPC | 16 | ovms | 200 | 1.00 | 2.00 | 5.00 | 50.0 | 1 | 1 |",
        "| gRPC | 16 | triton | 50.0 | 1.00 | 2.00 | 20.0 | 50.0 | 0.500 | 2.00 |",
        "| gRPC | 16 | kserve | not measured: pip: no / such |  |  |  |  |  |  |",
    ]
    busy = cell_of({"ovms": [100], "triton": [50]}, others=0.2)
    assert next(table.rows(busy, ["triton"])).endswith("| 50.0 | busy | busy |")


def test_a_server_that_fails_is_out_with_the_reason():
    def fail():
        raise LoadError("gone")

    class Three:
        rounds = 3

    order = []
    turns = {
        "ovms": lambda: order.append("ovms") or Turn(2, 1, 1),
        "nginx": lambda: order.append("nginx") or Turn(4, 1, 1),
        "kserve": fail,
    }
    cell = Cell("h2load", "dummy", "grpc", 1)
    alternate(Three(), cell, turns)
    assert order == ["ovms", "nginx", "nginx", "ovms", "ovms", "nginx"]
    assert (cell.failures, cell.ratio("nginx", "rate")) == ({"kserve": "gone"}, 2)


def test_blocks_of_the_page_are_replaced_whole():
    page = "a\n<!-- peers: x -->\nold\n\nlines\n<!-- end -->\nb\n"
    assert table.replaced(page, "x", "new") == "a\n<!-- peers: x -->\nnew\n<!-- end -->\nb\n"
    with pytest.raises(ValueError, match="no block `y`"):
        table.replaced(page, "y", "new")


def test_the_page_names_every_server_in_every_table():
    page = (ROOT / "docs/peers.md").read_text()
    for name in ("run", "servers", *(model.name for model in MODELS), "perf_analyzer"):
        _, found, rest = page.partition(f"<!-- peers: {name} -->\n")
        assert found, name
        block = rest.partition(table.END)[0]
        if name != "run":
            assert all(f"| {server} |" in block for server in SERVERS), name


def test_names_of_servers():
    assert names("") == tuple(SERVERS)
    assert names("nginx,mlserver") == ("ovms", "mlserver", "nginx")
    with pytest.raises(Exception, match="unknown: apache"):
        names("apache")


@pytest.fixture
def bench(tmp_path):
    """The command of a run against nginx, and its environment."""
    for tool in ("h2load", "nginx"):
        if program(tool) is None:
            pytest.skip(f"{tool} is not there: `make test-tools` gets it")
    command = [sys.executable, "-B", "-m", "peers", "--program", PROGRAM, "--installed", str(tmp_path)]
    command += ["--peers", "nginx", "--models", "dummy"]
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    return command, {**os.environ, "PYTHONPATH": str(ROOT / "benches"), "TMPDIR": str(temporary)}


def left_over(environment):
    """Files that a run has left, and servers, which run in its folder."""
    temporary = environment["TMPDIR"]
    servers = []
    for path in Path("/proc").glob("[0-9]*/cwd"):
        with contextlib.suppress(OSError):
            if os.readlink(path).startswith(temporary):
                servers.append(path.parent.name)
    return os.listdir(temporary), servers


def test_a_short_run(bench, tmp_path):
    command, environment = bench
    file = tmp_path / "figures.json"
    command += ["--seconds", "0.1", "--rounds", "1", "--json", str(file)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=LIMIT, check=False)
    assert done.returncode == 0, done.stderr
    document = json.loads(file.read_text())
    cells = [cell for cell in document["cells"] if cell["load"] == "h2load"]
    assert [(cell["wire"], cell["clients"]) for cell in cells] == [
        (wire, count) for wire in ("grpc", "binary", "json") for count in (1, 16)
    ]
    for cell in cells:
        assert cell["failures"] == {} and set(cell["turns"]) == {"ovms", "nginx"}, cell
        for turns in cell["turns"].values():
            (turn,) = turns
            assert turn["rate"] > 0 and 0 < turn["p50"] <= turn["p99"], turn
            assert turn["cpu"] > 0 and turn["memory"] > 1, turn
    # perf_analyzer is not installed there, and is named all the same.
    assert "not installed" in document["reasons"]["perf_analyzer"]
    assert "| perf_analyzer | — | not measured: not installed" in done.stdout
    assert "| `dummy` | 16 | ovms | not measured: perf_analyzer is not installed" in done.stdout
    assert "| gRPC | 16 | nginx |" in done.stdout
    assert left_over(environment) == ([], [])


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_leaves_nothing(bench, number):
    command, environment = bench
    process = subprocess.Popen(
        [*command, "--seconds", "30"], env=environment, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        line = next((line for line in process.stderr if "1 client" in line), None)
        assert line, "it did not come to a load"
        assert len(left_over(environment)[1]) >= 2
        os.killpg(process.pid, number)
        assert process.wait(timeout=LIMIT) == (130 if number == signal.SIGINT else 143)
    finally:
        process.kill()
        process.wait()
        process.stderr.close()
    assert left_over(environment) == ([], [])
