"""The chaos test: sequences go on over replicas that come, go, stall, and die, and so does their store.

    python run.py chaos --seconds 600

Prints what was done, and what came of it in one line that begins with `figures`. It ends with 1 if an answer was wrong
(a step was committed twice, or not at all), a sequence was lost, or a request failed that was not in flight on a replica
as it went away. A seed gives the same events.
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
from dataclasses import dataclass
from pathlib import Path

from engines import Fleet, Link, Redis, Replica, ask, ended, free_ports, until
from load import OUTDATED, Client, Load, right_answers

# Replicas of the fleet between events.
USUAL = 3
# How the line with the figures of a scenario begins.
FIGURES = "  figures: "
# A request waits ten seconds for its store; if that is away for longer, it may fail.
SHORT, LONG = 6.0, 13.0


@dataclass
class Event:
    """Something that happened, and the slot whose requests may fail for it if they were sent before it was over."""

    name: str
    begun: float
    slot: str = ""
    over: float = 0.0

    def excuses(self, failure):
        """Whether a request failed for this."""
        return failure.slot in ("", self.slot) and failure.sent <= self.over and failure.came >= self.begun


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
        """Let one event happen, and tell."""
        event, load = Event(name, time.monotonic()), self.load
        self.events.append(event)
        detail = await getattr(self, name)(event, *more) or ""
        print(
            f"{event.begun - self.begun:6.1f} s: {name} {detail}, {time.monotonic() - event.begun:.1f} s; in all "
            f"{len(load.steps)} steps, {len(load.failures)} failed, {len(load.lost)} lost, {len(load.wrong)} wrong",
            flush=True,
        )

    async def scale(self, _):
        """3, 5, 2, 3 replicas."""
        for count in (5, 2, USUAL):
            await self.fleet.scale(count)
            await asyncio.sleep(0.5)

    async def rolling(self, _):
        """Each replica is replaced by a new one."""
        for old in list(self.fleet.replicas):
            await self.fleet.admit(await self.fleet.launch())
            await self.fleet.retire(old)

    async def kill(self, event):
        """A replica dies in the midst of its steps."""
        replica = self.random.choice(self.fleet.replicas)
        event.slot, event.begun = replica.slot, time.monotonic()
        replica.kill()
        # What is sent a moment later meets a connection that is about to close.
        event.over = time.monotonic() + 0.05
        await asyncio.sleep(1)
        await self.fleet.forget(replica)
        await self.fleet.scale(USUAL)
        return replica.name

    async def pause(self, event):
        """A replica stalls, others get its requests, and then it goes on as if nothing had been."""
        replica, seconds = self.random.choice(self.fleet.replicas), self.random.uniform(1.5, 7)
        event.slot = replica.slot
        replica.popen.send_signal(signal.SIGSTOP)
        await asyncio.sleep(1)
        for backend in ("rest", "grpc"):
            await self.fleet.haproxy(f"shutdown sessions server {backend}/{replica.slot}")
        await asyncio.sleep(seconds - 1)
        replica.popen.send_signal(signal.SIGCONT)
        event.over = time.monotonic()
        await asyncio.sleep(1)
        return f"{replica.name} for {seconds:.1f} s"

    async def redis_kill(self, _):
        """Redis dies, and comes back with its folder."""
        self.redis.kill()
        await asyncio.sleep(self.random.uniform(0.2, 2))
        self.redis = await Redis(self.folder, self.redis.port).ready()

    async def cut(self, event, way=Link.cut):
        """The connections between a replica and Redis end, and no new ones can be made."""
        replica = self.random.choice(self.fleet.replicas)
        short = self.options.seconds < 100 or self.random.random() < 0.7
        seconds = self.random.uniform(0.5, SHORT) if short else LONG
        way(replica.link)
        await asyncio.sleep(seconds)
        replica.link.heal()
        if not short:
            event.slot, event.over = replica.slot, time.monotonic()
        return f"{replica.name} for {seconds:.1f} s"

    async def hold(self, event):
        """Bytes between a replica and Redis come late."""
        return await self.cut(event, Link.hold)

    async def failover(self, _, second, replication, wait):
        """Redis dies, and what followed it takes its place; it lags unless it is waited for."""
        if not wait:
            replication.hold()
            await asyncio.sleep(1.5)
        self.redis.kill()
        replication.cut()
        await until(lambda: promoted(second), "Redis does not take over")
        if wait:
            await Redis(self.folder, *free_ports(1), primary=second.port).ready()
        for replica in self.fleet.replicas:
            replica.link.cut()
            replica.link.heal(second.port)

    async def end(self, may_lose=False):
        """End the load and print what came of it; gives the number of violations."""
        seconds = time.monotonic() - self.loaded
        await self.load.end()
        await self.client.close()
        await self.fleet.scale(0)
        load, excused, bad = self.load, Counter(), []
        for failure in load.failures:
            reason = next((event.name for event in self.events if event.excuses(failure)), None)
            excused[reason] += 1
            bad += [] if reason else [failure]
        kinds = {"wrong": load.wrong, "refused": load.refused, "failed for no reason": bad}
        kinds |= {} if may_lose else {"lost": load.lost}
        for kind, answers in kinds.items():
            for answer in answers[:10]:
                where = f"at {answer.sent - self.begun:.2f} s for {answer.came - answer.sent:.2f} s, {answer.slot}"
                print(f"  VIOLATION {kind}, {where}: {answer.error}")
        print(f"  failed and sent again: {dict(excused)}\n{FIGURES}{self.figures(seconds, len(bad))}", flush=True)
        return sum(map(len, kinds.values()))

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


def median(times):
    """The median of times, in words."""
    return f"{statistics.median(times) * 1e3:.1f} ms" if times else "unknown"


async def promoted(redis):
    """Whether a Redis server takes writes, after it has been told to."""
    await ask(redis.port, b"REPLICAOF NO ONE\r\n")
    return "role:master" in await ask(redis.port, b"INFO replication\r\n")


async def chaos(test):
    """Everything that may happen, one after the other, each as often as the others; nothing is lost."""
    options, deck = test.options, []
    await test.begin(options.live, options.rate)
    end = time.monotonic() + options.seconds
    while time.monotonic() < end:
        deck = deck or test.random.sample(options.events, len(options.events))
        await test.happen(deck.pop())
        await asyncio.sleep(0.5)
    return await test.end()


async def failover(test, wait=False):
    """Redis is replaced by what followed it; a state that is too old is told, and never resumed."""
    port, second = free_ports(2)
    first = await Redis(test.folder, port).ready()
    replication = await Link(port).open()
    second = await Redis(test.folder, second, primary=replication.port).ready()
    await second.serves(second.port, b"INFO replication\r\n", "master_link_status:up", "does not follow")
    await test.begin(60, 60, redis=first, store="?wait=1" if wait else "")
    await test.happen("failover", second, replication, wait)
    await asyncio.sleep(3)
    violations = await test.end(may_lose=not wait)
    return violations or told(test.load.lost, not wait)


async def failover_wait(test):
    """With a wait for what follows Redis, nothing is lost."""
    return await failover(test, wait=True)


async def interval(test):
    """States that are stored in intervals: nothing is lost but by a kill, and that is told."""
    await test.begin(60, 60, durability="interval")
    await test.happen("scale")
    lost = len(test.load.lost)
    await test.happen("kill")
    await asyncio.sleep(6)
    return lost + (await test.end(may_lose=True) or told(test.load.lost, True))


def told(lost, expected):
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
    events = ["scale", "rolling", "kill", "pause", "redis_kill", "cut", "hold"]
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
