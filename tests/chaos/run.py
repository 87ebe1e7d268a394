"""The chaos test: sequences go on over replicas that come, go, stall, and die, and so does their store.

    python run.py chaos --seconds 600

Prints what was done, and what came of it in one line that begins with `figures`. It ends with 1 if an answer was wrong
(a step was committed twice, or not at all), a sequence was lost, a request failed that was not in flight on a replica
as it went away, of which HAProxy's counters give the number, or an event has hit nothing, such as a kill of a replica
without requests. A seed gives the same events.
"""

import argparse
import asyncio
import random
import signal
import statistics
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from engines import Fleet, Link, Redis, Replica, ask, ended, free_ports, until
from evidence import Event, Verdict
from evidence import listed as hit
from load import OUTDATED, Client, Load, right_answers

# Replicas of the fleet between events.
USUAL = 3
# How the lines with the events and the figures of a scenario begin.
EVENTS, FIGURES = "  events: ", "  figures: "
# A request waits ten seconds for its store; if that is away for longer, it may fail, and says so.
SHORT, LONG, STORE_LIMIT = 6.0, 13.0, 9.5
STORE_AWAY = "Sequence store is not available"
# How many requests a replica has as it goes away, at least.
FEW = 3


class Chaos:
    """A fleet under load, and what happens to it."""

    def __init__(self, folder, options, table):
        self.folder, self.options, self.table = folder, options, table
        self.random, self.events, self.begun = random.Random(options.seed), [], time.monotonic()

    async def begin(self, live, rate, durability="step", redis=None, store=""):
        """Start everything."""
        self.redis = redis or await Redis(self.folder, *free_ports(1)).ready()
        self.fleet = await Fleet(self.folder, self.redis.port, durability, store).open(USUAL)
        self.client = Client(self.fleet.port, self.fleet.rest_port)
        self.load, self.loaded = Load(self.client, self.table, live, rate, self.options.seed), time.monotonic()
        await asyncio.sleep(2)

    async def happen(self, name, *more):
        """Let one event happen, and print it."""
        event, load = Event(name, time.monotonic()), self.load
        self.events.append(event)
        detail = await getattr(self, name)(event, *more) or ""
        print(
            f"{event.begun - self.begun:6.1f} s: {name} {detail}, {time.monotonic() - event.begun:.1f} s, hit "
            f"{hit(event.hits)}; in all {len(load.steps)} steps, {len(load.failures)} failed, {len(load.lost)} lost, {len(load.wrong)} wrong",
            flush=True,
        )

    async def came(self, event, change):
        """Make a change that brings replicas, wait until each has answered a step, and count those that came and went."""
        before, answers = list(self.fleet.replicas), Counter(self.load.slots)
        await change
        new = [each for each in self.fleet.replicas if each not in before]
        for each in new:

            async def answered():
                return self.load.slots[each.slot] > answers[each.slot]

            await until(answered, f"{each.name} has no request")
        gone = [each for each in before if each not in self.fleet.replicas]
        # In order: it was idle, and its exit code is 0.
        assert all(each.popen.returncode == 0 for each in gone)
        assert await self.fleet.have("UP") == {each.slot for each in self.fleet.replicas}
        for what, replicas in (("replicas came", new), ("went", gone)):
            if replicas:
                event.hits[what] += len(replicas)

    async def scale(self, event):
        """3, 5, 2, 3 replicas."""
        for count in (5, 2, USUAL):
            await self.came(event, self.fleet.scale(count))
            assert len(self.fleet.replicas) == count
            await asyncio.sleep(0.5)
        assert (event.hits["replicas came"], event.hits["went"]) == (3, 3)

    async def rolling(self, event):
        """Each replica is replaced by a new one."""
        for old in list(self.fleet.replicas):

            async def replaced(old=old):
                await self.fleet.admit(await self.fleet.launch())
                await self.fleet.retire(old)

            await self.came(event, replaced())
        assert event.hits["replicas came"] == event.hits["went"] == USUAL

    async def has(self, replica, count=1, held=False):
        """Wait until HAProxy has so many requests on a replica, and bytes of it are held if they are to be."""

        async def busy():
            return await self.fleet.flying(replica) >= count and (not held or replica.link.met)

        await until(busy, f"{replica.name} has no requests")

    async def kill(self, event, *held):
        """A replica dies in the midst of its steps."""
        replica = self.random.choice(self.fleet.replicas)
        if held:
            replica.link.hold(*(getattr(replica.link, way) for way in held))
        self.load.rush()
        await self.has(replica, FEW, held)
        # It has ended when this returns, and nothing is sent meanwhile.
        since = time.monotonic()
        replica.kill()

        async def gone():
            return not await self.fleet.flying(replica)

        # Until HAProxy has seen that, it goes on to give requests to the connections that were there.
        await until(gone, f"HAProxy does not see that {replica.name} has ended")
        event.fails(replica.slot, since, time.monotonic())
        event.hits["replicas killed"] += replica.popen.returncode == -signal.SIGKILL
        if held:
            event.hits["bytes held"] = replica.link.met
        await asyncio.sleep(1)
        # What it had sent arrives now, after others have gone on.
        replica.link.heal()
        await self.fleet.forget(replica)
        await self.came(Event("", 0), self.fleet.scale(USUAL))
        return replica.name

    async def kill_before(self, event):
        """A replica dies whose steps have not reached Redis; they do later."""
        return await self.kill(event, "out")

    async def kill_after(self, event):
        """A replica dies whose steps Redis has, and does not know it."""
        return await self.kill(event, "back")

    async def pause(self, event):
        """A replica stalls, others get its requests, and then it goes on as if nothing had been."""
        replica, seconds = self.random.choice(self.fleet.replicas), self.random.uniform(1.5, 7)
        begun = time.monotonic()
        replica.popen.send_signal(signal.SIGSTOP)

        async def down():
            return replica.slot in await self.fleet.have("DOWN")

        await self.has(replica, FEW)
        # From then on it gets no more of them.
        await until(down, f"HAProxy does not see that {replica.name} stalls")
        since = time.monotonic()
        for backend in ("rest", "grpc"):
            await self.fleet.haproxy(f"shutdown sessions server {backend}/{replica.slot}")
        event.fails(replica.slot, since, time.monotonic())
        await asyncio.sleep(max(0, begun + seconds - time.monotonic()))
        event.hits["replicas halted"] += halted(replica.popen.pid)
        replica.popen.send_signal(signal.SIGCONT)
        answers = self.load.slots[replica.slot]

        async def back():
            return self.load.slots[replica.slot] > answers

        await until(back, f"{replica.name} does not come back")
        return f"{replica.name} for {seconds:.1f} s"

    async def redis_kill(self, event):
        """Redis dies in the midst of steps, and comes back with its folder."""
        self.load.rush()

        async def busy():
            return len(self.load.flying) >= FEW

        await until(busy, "nothing is sent")
        event.hits["requests in flight"] = len(self.load.flying)
        self.redis.kill()
        event.hits["stores killed"] += self.redis.popen.returncode == -signal.SIGKILL
        await asyncio.sleep(self.random.uniform(0.2, 2))
        self.redis = await Redis(self.folder, self.redis.port).ready()
        answers = self.load.slots.total()

        async def on():
            return self.load.slots.total() > answers

        await until(on, "nothing goes on")

    async def cut(self, event, way=Link.cut):
        """The connections between a replica and Redis end, and no new ones can be made."""
        replica = self.random.choice(self.fleet.replicas)
        short = self.options.seconds < 100 or self.random.random() < 0.7
        seconds = self.random.uniform(0.5, SHORT) if short else LONG
        since = time.monotonic()
        way(replica.link)
        await asyncio.sleep(seconds)
        await self.has(replica)
        event.hits["requests that waited"] += await self.fleet.flying(replica)
        event.hits["bytes held" if way is Link.hold else "connections cut"] += replica.link.met
        replica.link.heal()
        if not short:
            event.fails(replica.slot, since, time.monotonic(), STORE_AWAY, STORE_LIMIT)
        return f"{replica.name} for {seconds:.1f} s"

    async def hold(self, event):
        """Bytes between a replica and Redis come late."""
        return await self.cut(event, Link.hold)

    async def failover(self, event, second, replication, wait):
        """Redis dies, and what followed it takes its place; it lags unless it is waited for."""
        if not wait:
            replication.hold()
            await asyncio.sleep(1.5)
            event.hits["bytes of replication held"] = replication.met
        self.redis.kill()
        event.hits["stores killed"] += 1
        replication.cut()
        await until(lambda: promoted(second), "Redis does not take over")
        if wait:
            await Redis(self.folder, *free_ports(1), primary=second.port).ready()
        for replica in self.fleet.replicas:
            replica.link.cut()
            replica.link.heal(second.port)
            event.hits["replicas moved"] += 1

    async def end(self, planned, may_lose=False):
        """End the load and print what came of it; gives the number of violations."""
        seconds = time.monotonic() - self.loaded
        await self.load.end()
        await self.client.close()
        await self.fleet.scale(0)
        load, verdict = self.load, Verdict(self.events, planned, self.load.failures, await self.fleet.unanswered())
        kinds = {"wrong": load.wrong, "refused": load.refused, "failed for no reason": verdict.bad}
        kinds |= {} if may_lose else {"lost": load.lost}
        for kind, answers in kinds.items():
            for answer in answers[:10]:
                where = f"at {answer.sent - self.begun:.2f} s for {answer.came - answer.sent:.2f} s, {answer.slot}"
                print(f"  VIOLATION {kind}, {where}: {answer.error}")
        for violation in verdict.violations:
            print(f"  VIOLATION {violation}")
        print(f"{EVENTS}{verdict.summary()}\n{FIGURES}{self.figures(seconds, len(verdict.bad))}", flush=True)
        return sum(map(len, kinds.values())) + len(verdict.violations)

    def figures(self, seconds, bad):
        """The outcome, for the page of figures."""
        load, steps = self.load, sorted(self.load.steps)
        return (
            f"{seconds:.0f} s with {load.live} live sequences, {load.counts['sequences']} in all, "
            f"{len(steps)} steps: {len(load.wrong)} committed twice or not at all, {len(load.lost)} lost, {len(load.refused)} "
            f"refused, {len(load.failures)} failed and sent again, {bad} of them in flight on nothing that went away; p50 "
            f"{median(load.stayed)} on the replica of the step before, {median(load.moved)} of {len(load.moved)} steps on "
            f"another one; p99 {steps[len(steps) * 99 // 100] * 1e3:.0f} ms, longest {steps[-1]:.1f} s"
        )


def halted(process):
    """Whether all threads of a process are."""
    threads = Path(f"/proc/{process}/task").glob("*/stat")
    return all(thread.read_text().rpartition(")")[2].split()[0] == "T" for thread in threads)


def median(times):
    """The median of times, in words."""
    return f"{statistics.median(times) * 1e3:.1f} ms" if times else "unknown"


async def promoted(redis):
    """Whether a Redis server takes writes, after it has been asked to."""
    await ask(redis.port, b"REPLICAOF NO ONE\r\n")
    return "role:master" in await ask(redis.port, b"INFO replication\r\n")


async def chaos(test):
    """Everything that may happen, one after the other, each as often as the others; nothing is lost."""
    options, deck = test.options, []
    await test.begin(options.live, options.rate)
    end = time.monotonic() + options.seconds
    while time.monotonic() < end or len(test.events) < len(options.events):
        deck = deck or test.random.sample(options.events, len(options.events))
        await test.happen(deck.pop())
        await asyncio.sleep(0.5)
    return await test.end(options.events)


async def failover(test, wait=False):
    """Redis is replaced by what followed it; a state that is too old is reported, and never resumed."""
    port, second = free_ports(2)
    first = await Redis(test.folder, port).ready()
    replication = await Link(port).open()
    second = await Redis(test.folder, second, primary=replication.port).ready()
    await second.serves(second.port, b"INFO replication\r\n", "master_link_status:up", "does not follow")
    await test.begin(60, 60, redis=first, store="?wait=1" if wait else "")
    await test.happen("failover", second, replication, wait)
    await asyncio.sleep(3)
    violations = await test.end(["failover"], may_lose=not wait)
    return violations or losses(test.load.lost, not wait)


async def failover_wait(test):
    """With a wait for what follows Redis, nothing is lost."""
    return await failover(test, wait=True)


async def interval(test):
    """States that are stored in intervals: nothing is lost but by a kill, and that is reported."""
    await test.begin(60, 60, durability="interval")
    await test.happen("scale")
    lost = len(test.load.lost)
    await test.happen("kill")
    await asyncio.sleep(6)
    return lost + (await test.end(["scale", "kill"], may_lose=True) or losses(test.load.lost, True))


def losses(lost, expected):
    """The number of violations in what was said to be lost: a start that the store has lost is merely unknown there."""
    outdated = any(OUTDATED in answer.error for answer in lost)
    if outdated != expected:
        print(f"  VIOLATION: {len(lost)} sequences were said to be lost")
    return int(outdated != expected)


async def run(options):
    """Run the scenarios; gives the number of violations."""
    violations = 0
    with tempfile.TemporaryDirectory(prefix="ovms-chaos-") as folder, ended():
        folder = Path(folder)
        one = await Replica(folder).ready()
        client = Client(one.port, one.rest_port)
        table = await right_answers(client)
        await client.close()
        await one.stop()
        for scenario in options.scenarios:
            print(f"{scenario.__name__}, seed {options.seed}", flush=True)
            own = folder / scenario.__name__
            own.mkdir()
            violations += await scenario(Chaos(own, options, table))
    return violations


def main():
    """Read the command line, and run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    scenarios = {each.__name__: each for each in (chaos, failover, failover_wait, interval)}
    events = ["scale", "rolling", "kill", "kill_before", "kill_after", "pause", "redis_kill", "cut", "hold"]
    parser.add_argument("scenarios", nargs="*", metavar="SCENARIO", help=f"of {', '.join(scenarios)}; or all")
    parser.add_argument("--seconds", type=float, default=30, help="how long events happen in `chaos`")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument("--live", type=int, default=300, help="sequences at once in `chaos`")
    parser.add_argument("--rate", type=float, default=200, help="steps a second that they are for")
    parser.add_argument("--events", nargs="*", choices=events, default=events)
    options = parser.parse_args()
    options.scenarios = [scenarios[name] for name in options.scenarios or scenarios]
    violations = asyncio.run(run(options))
    print(f"{violations} violations" if violations else "passed")
    sys.exit(bool(violations))


if __name__ == "__main__":
    main()
