"""Sequences over several replicas while these, and their store, come, go, stall, and die: tests/chaos for a minute."""

import asyncio
import signal
import subprocess
import sys
from collections import Counter

import pytest

from conftest import ROOT

sys.path.insert(0, str(ROOT / "tests/chaos"))
from engines import SLOTS, Fleet, Link, Redis, Replica, ask, ended, find, free_ports, until  # noqa: E402
from evidence import Event, Verdict  # noqa: E402
from load import BEGIN, END, MIDDLE, OUTDATED, Answer, Client  # noqa: E402
from run import EVENTS, FIGURES, halted, promoted  # noqa: E402


@pytest.fixture(autouse=True)
def engines():
    """What there has to be."""
    for name in ("haproxy", "redis-server"):
        if find(name) is None:
            pytest.skip(f"no {name} here; `make test-tools` gets it")


# The events of scenarios. Those that hit nothing are failures of the run.
HAPPENS = {
    "chaos": {"scale", "rolling", "kill", "kill_before", "kill_after", "pause", "redis_kill", "cut", "hold"},
    "interval": {"scale", "kill"},
}


@pytest.mark.parametrize("scenario", ["chaos", "failover", "failover_wait", "interval"])
def test_sequences_survive(scenario):
    """Each answer is right, and nothing is lost but where that is reported."""
    command = [sys.executable, str(ROOT / "tests/chaos/run.py"), scenario, "--seconds", "60"]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    (figures,) = [line for line in ran.stdout.splitlines() if line.startswith(FIGURES)]
    (events,) = [line for line in ran.stdout.splitlines() if line.startswith(EVENTS)]
    happened = {event.split()[0] for event in events.removeprefix(EVENTS).split("; ")}
    assert happened == HAPPENS.get(scenario, {"failover"}), events
    assert ": 0 committed twice or not at all, " in figures and ", 0 of them in flight on nothing that went away; " in figures
    if scenario == "chaos":
        # The time of events, after the sequences have begun.
        assert float(figures.removeprefix(FIGURES).split()[0]) >= 60 and " s with 300 live sequences, " in figures
        assert ", 0 lost, " in figures


def test_only_what_was_in_flight_on_a_killed_replica_is_excused():
    """Nothing that was sent later, or was elsewhere; and a kill that has hit nothing is no kill."""
    kill = Event("kill", 1.0)
    kill.fails("s1", 10.0, 10.1)

    def failed(sent, came, slot="", error="x"):
        return Answer(sent=sent, came=came, slot=slot, error=error)

    excused = [failed(9.0, 10.2), failed(10.1, 10.1, "s1")]
    assert all(kill.excuses(failure) for failure in excused)
    blamed = [failed(10.11, 10.3), failed(9.0, 9.9), failed(9.0, 10.2, "s2")]
    assert not any(kill.excuses(failure) for failure in blamed)
    verdict = Verdict([kill], ["kill"], excused + blamed, Counter(s1=2))
    assert (verdict.bad, verdict.violations) == (blamed, [])
    assert verdict.summary() == "kill 1 (2 failed and sent again)"
    # HAProxy has seen something else.
    assert Verdict([kill], ["kill"], excused, Counter(s1=3)).violations
    assert Verdict([kill], ["kill"], excused, Counter(s1=2, s2=1)).violations
    idle = Event("kill", 1.0)
    idle.fails("s1", 10.0, 10.1)
    assert Verdict([idle], ["kill", "pause"], [], Counter()).violations == [
        "pause did not happen",
        "kill hit nothing: 0 failed and sent again",
    ]
    cut = Event("cut", 1.0)
    cut.fails("s1", 10.0, 23.0, "is not available", 9.5)
    assert cut.excuses(failed(11.0, 21.0, "s1", "store is not available"))
    assert not cut.excuses(failed(11.0, 12.0, "s1", "store is not available"))
    assert not cut.excuses(failed(11.0, 21.0, "s1"))


def test_a_check_that_a_killed_replica_did_not_answer_is_no_refusal(tmp_path):
    """HAProxy calls it an invalid response, among its counters."""

    async def whole():
        async def ends(reader, writer):
            await reader.readuntil(b"\r\n\r\n")
            writer.close()

        fleet = await Fleet(tmp_path, 0, "step").open(0)
        server = await asyncio.start_server(ends, "127.0.0.1", *free_ports(1))
        port = server.sockets[0].getsockname()[1]
        await fleet.haproxy(f"set server rest/{SLOTS[0]} addr 127.0.0.1 port {port}")
        await fleet.haproxy(f"set server rest/{SLOTS[0]} check-port {port}")
        await fleet.haproxy(f"set server rest/{SLOTS[0]} state ready")

        async def checked():
            return any(each["check_desc"] == "Layer7 invalid response" for each in await fleet.servers())

        await until(checked, "HAProxy checks nothing")
        with pytest.raises(AssertionError, match="No such"):
            await fleet.haproxy("set server rest/other state ready")
        server.close()

    with ended():
        asyncio.run(whole())


class Pair:
    """Two servers with one way to a store, and the right answers of the first steps."""

    async def open(self, folder):
        """Start everything."""
        self.redis = await Redis(folder, *free_ports(1)).ready()
        self.link = await Link(self.redis.port).open()
        flags = ["--sequence_store", f"redis://127.0.0.1:{self.link.port}", "--sequence_durability", "step"]
        self.servers = [await Replica(folder, self.link, *flags).ready() for _ in range(2)]
        self.clients = [Client(server.port, server.rest_port) for server in self.servers]
        self.right = [await self.step(0, step, 900) for step in range(6)]
        return self

    async def step(self, server, step, id=7, mark=None, key=None):
        """Send a step; gives its value, or the error."""
        mark = mark if mark is not None else MIDDLE if step else BEGIN
        answer = await self.clients[server].step("kserve_grpc", step, id, mark, key or f"key {id} {step}")
        return answer.error or answer.value

    async def close(self):
        """End the connections."""
        for client in self.clients:
            await client.close()


def of_pair(test):
    """Makes a test of what is done to a pair."""

    def run(tmp_path):
        async def whole():
            pair = await Pair().open(tmp_path)
            await test(pair, tmp_path)
            await pair.close()

        with ended():
            asyncio.run(whole())

    run.__name__, run.__doc__ = test.__name__, test.__doc__
    return run


@of_pair
async def test_a_request_that_was_held_up_is_not_run_again(pair, _):
    """It arrives after its client has sent it to another server, and has gone on there."""
    assert await pair.step(0, 0) == pair.right[0]
    process = pair.servers[0].popen
    process.send_signal(signal.SIGSTOP)

    async def stands():
        return halted(process.pid)

    await until(stands, "the server is not halted")
    late = asyncio.create_task(pair.step(0, 1))
    await asyncio.sleep(0.2)
    assert [await pair.step(1, step) for step in (1, 2)] == pair.right[1:3]
    process.send_signal(signal.SIGCONT)
    assert "ABORTED" in str(await late)
    assert [await pair.step(step % 2, step) for step in (3, 4)] == pair.right[3:5]


@of_pair
async def test_an_end_may_be_repeated_before_it_is_answered(pair, _):
    """Both requests get the answer."""
    assert await pair.step(0, 0) == pair.right[0]
    pair.link.hold()
    both = [asyncio.create_task(pair.step(0, 1, mark=END)) for _ in range(2)]
    await asyncio.sleep(0.3)
    pair.link.heal()
    assert await asyncio.gather(*both) == pair.right[1:2] * 2


@of_pair
async def test_nothing_of_before_a_failover_is_taken_for_the_newest(pair, folder):
    """Neither a state of which a server has the epoch, nor an id that was given to another sequence."""
    replication = await Link(pair.redis.port).open()
    second = await Redis(folder, *free_ports(1), primary=replication.port).ready()
    assert [await pair.step(0, step) for step in (0, 1)] == pair.right[:2]

    async def follows():
        first, other = [await ask(redis.port, b"INFO replication\r\n") for redis in (pair.redis, second)]
        offset = next(line for line in first.splitlines() if line.startswith("master_repl_offset"))
        return "master_link_status:up" in other and offset.replace("master", "slave") in other

    await until(follows, "Redis does not follow")
    replication.hold()
    assert await pair.step(1, 2) == pair.right[2]
    given = await pair.clients[1].step("kserve_grpc", 0, 0, BEGIN, "given")
    pair.redis.kill()
    replication.cut()
    await until(lambda: promoted(second), "Redis does not take over")
    pair.link.cut()
    pair.link.heal(second.port)
    assert OUTDATED in await pair.step(0, 3, mark=END)
    other = await pair.clients[0].step("kserve_grpc", 0, 0, BEGIN, "other")
    assert (given.error, other.error) == ("", "")
    assert given.id != other.id
