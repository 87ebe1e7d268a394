"""The chaos test: sequences go on over replicas that come, go, stall, and die, and so does their store.

    python run.py --seconds 600

Prints what was done and what came of it; ends with 1 if a sequence was lost, a step was committed twice, or a
request failed that had no reason to. The same seed makes the same events.
"""

import argparse
import asyncio
import random
import signal
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import grpc

from engines import MODEL, Fleet, Link, Process, Redis, ended, free_ports, until
from load import KEY, RAW, Client, Load, kserve, right_answers

# Replicas of the usual size of the fleet.
USUAL = 3
# Below the time that a request waits for its store, beyond which it may fail: 10 s.
SHORT = 6.0


@dataclass
class Event:
    """Something that happened to the fleet, and the slot whose requests in flight may fail for it."""

    name: str
    slot: str = ""
    # From when to when what was sent may fail; the whole of it is the event's end.
    begun: float = 0.0
    until: float = 0.0

    def excuses(self, failure):
        """Whether a request failed for this: it was in flight on the replica of the event."""
        return (
            self.slot != ""
            and failure.slot in ("", self.slot)
            and failure.sent <= self.until
            and failure.failed >= self.begun
        )


class Chaos:
    """A fleet under load, and what happens to it."""

    def __init__(self, fleet, redis, load, seed):
        self.fleet, self.redis, self.load = fleet, redis, load
        self.random, self.events, self.begun = random.Random(seed), [], time.monotonic()

    async def run(self, seconds, names):
        """Let events happen until the time is over, each kind as often as the others."""
        deck, end = [], time.monotonic() + seconds
        while time.monotonic() < end:
            if not deck:
                deck = self.random.sample(names, len(names))
            await self.happen(deck.pop())
            await asyncio.sleep(0.5)

    async def happen(self, name):
        """Let one event happen, and tell."""
        event = Event(name, begun=time.monotonic())
        self.events.append(event)
        failures = len(self.load.failures)
        detail = await getattr(self, name)(event)
        now, load = time.monotonic(), self.load
        print(
            f"{event.begun - self.begun:6.1f} s  {name} {detail or ''}, {now - event.begun:.1f} s: "
            f"{len(load.failures) - failures} failed, {len(load.lost)} lost, {len(load.wrong)} wrong; "
            f"{load.counts['steps']} steps so far",
            flush=True,
        )

    def victim(self, event, slot=True):
        """A replica by chance."""
        replica = self.random.choice(self.fleet.replicas)
        event.slot = replica.slot if slot else ""
        return replica

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
        replica = self.victim(event)
        event.begun = time.monotonic()
        self.fleet.kill(replica)
        # What was sent a moment later meets a connection that is closed already.
        event.until = time.monotonic() + 0.05
        await asyncio.sleep(1.5)
        await self.fleet.forget(replica)
        await self.fleet.scale(USUAL)
        return replica.name

    async def pause(self, event):
        """A replica stalls, and goes on as if nothing had been."""
        replica, seconds = self.victim(event), self.random.uniform(1, 7)
        replica.signal(signal.SIGSTOP)
        # HAProxy sends it requests until it sees that it is away.
        await asyncio.sleep(seconds)
        replica.signal(signal.SIGCONT)
        event.until = time.monotonic()
        await asyncio.sleep(1)
        return f"{replica.name} for {seconds:.1f} s"

    async def redis_kill(self, _):
        """Redis dies, and comes back with its folder."""
        self.redis.kill()
        seconds = self.random.uniform(0.2, 2)
        await asyncio.sleep(seconds)
        self.redis = await Redis(self.fleet.folder, self.redis.port).ready()
        return f"for {seconds:.1f} s"

    async def cut(self, event):
        """The connections between a replica and Redis end, and no new ones can be made."""
        return await self.partition(event, Link.cut)

    async def hold(self, event):
        """Bytes between a replica and Redis come late."""
        return await self.partition(event, Link.hold)

    async def partition(self, event, way):
        """A replica has no Redis for a while."""
        seconds = self.random.choice([self.random.uniform(0.5, SHORT), 13.0 if self.load.live > 200 else 1.0])
        replica = self.victim(event, slot=seconds > SHORT)
        way(replica.link)
        await asyncio.sleep(seconds)
        replica.link.heal()
        event.until = time.monotonic()
        return f"{replica.name} for {seconds:.1f} s"

    async def failover(self, _, secondary, replication, lag, wait):
        """Redis dies, and what followed it takes its place, which may not have everything."""
        if lag:
            replication.hold()
            await asyncio.sleep(1.5)
        self.redis.kill()
        replication.cut()
        await secondary.command("REPLICAOF NO ONE")
        if wait:
            (port,) = free_ports(1)
            await Redis(self.fleet.folder, port, primary=secondary.port).ready()
        for replica in self.fleet.replicas:
            replica.link.cut()
            replica.link.heal(secondary.port)
        self.redis = secondary

    def report(self, may_lose=False):
        """Print what came of it; gives the number of violations."""
        load, excused, bad = self.load, {}, []
        for failure in load.failures:
            reason = next((event for event in self.events if event.excuses(failure)), None)
            if reason:
                excused[reason.name] = excused.get(reason.name, 0) + 1
            else:
                slot = self.fleet.known.get(failure.slot, failure.slot)
                bad.append((failure.sent, f"failed after {failure.failed - failure.sent:.2f} s at {slot}: {failure.what}"))
        kinds = {"failed for no reason": bad, "wrong": load.wrong, "refused": load.refused}
        if not may_lose:
            kinds["lost"] = load.lost
        for kind, cases in kinds.items():
            for when, text in cases[:10]:
                print(f"  VIOLATION {kind}, at {when - self.begun:.2f} s: {text}")
        times = sorted(took for took, _ in load.times)
        print(
            f"  {load.counts['sequences']} sequences, {len(times)} steps, {load.hops[True]} of them on another replica "
            f"than before; p50 {times[len(times) // 2] * 1e3:.1f} ms, p99 {times[len(times) * 99 // 100] * 1e3:.0f} ms, "
            f"longest {times[-1]:.1f} s\n  lost {len(load.lost)}, wrong {len(load.wrong)}, refused {len(load.refused)}, "
            f"failed and sent again {len(load.failures)}: in flight {excused}, without a reason {len(bad)}",
            flush=True,
        )
        return sum(map(len, kinds.values()))


class Test:
    """The scenarios, each with engines of its own."""

    def __init__(self, options):
        self.options, self.table = options, None

    async def setting(self, folder, durability="step", store="", redis_port=None, live=None, rate=None, redis=None):
        """A fleet with load on it."""
        fleet = Fleet(folder, durability, store)
        await fleet.open(redis_port, USUAL)
        client = Client(fleet.port, fleet.rest_port)
        options = self.options
        load = Load(client, self.table, live or options.live, rate or options.rate, options.seed)
        load.begin()
        return Chaos(fleet, redis, load, options.seed)

    async def finish(self, chaos, may_lose=False):
        """End the load, and count violations."""
        await chaos.load.end()
        await chaos.load.client.close()
        for replica in list(chaos.fleet.replicas):
            await chaos.fleet.retire(replica)
        return chaos.report(may_lose)

    async def chaos(self, folder):
        """Everything at once, and nothing may be lost."""
        redis = await Redis(folder, *free_ports(1)).ready()
        chaos = await self.setting(folder, redis_port=redis.port, redis=redis)
        await chaos.run(self.options.seconds, self.options.events)
        return await self.finish(chaos)

    async def redis_failover(self, folder, wait):
        """Redis is replaced by what followed it; a state that is too old is told, and never resumed."""
        port, second = free_ports(2)
        redis = await Redis(folder, port).ready()
        replication = await Link(port).open()
        secondary = await Redis(folder, second, primary=replication.port).ready()
        await until(secondary.follows, "Redis does not follow")
        store = "?wait=1" if wait else ""
        chaos = await self.setting(folder, store=store, redis_port=port, redis=redis, live=60, rate=60)
        await asyncio.sleep(3)
        event = Event("failover", begun=time.monotonic())
        chaos.events.append(event)
        await chaos.failover(event, secondary, replication, lag=not wait, wait=wait)
        await asyncio.sleep(4)
        violations = await self.finish(chaos, may_lose=not wait)
        if not wait and not chaos.load.lost:
            print("  VIOLATION: no sequence was told to be lost")
            violations += 1
        return violations

    async def failover(self, folder):
        """Without a wait for the replica of Redis, which lags."""
        return await self.redis_failover(folder, wait=False)

    async def failover_wait(self, folder):
        """With one, which loses nothing."""
        return await self.redis_failover(folder, wait=True)

    async def interval(self, folder):
        """States that are stored in intervals: nothing is lost but by a kill, and that is told."""
        redis = await Redis(folder, *free_ports(1)).ready()
        chaos = await self.setting(folder, "interval", redis_port=redis.port, redis=redis, live=60, rate=60)
        await asyncio.sleep(2)
        await chaos.happen("scale")
        violations = len(chaos.load.lost)
        await chaos.happen("kill")
        await asyncio.sleep(6)
        violations += await self.finish(chaos, may_lose=True)
        if violations or not chaos.load.lost:
            print("  VIOLATION: lost without a kill, or nothing lost by one")
            violations += 1
        return violations

    async def measure(self, folder):
        """What a step takes without a store, with one that knows it, and when each step is on another replica."""
        redis = await Redis(folder, *free_ports(1), fsync="everysec").ready()
        alone = await Fleet(folder, proxied=False).open(None, 1)
        pair = await Fleet(folder, proxied=False).open(redis.port, 2)
        ports = {"no store": [alone.replicas[0].port], "stays": [pair.replicas[0].port]}
        ports["hops"] = [replica.port for replica in pair.replicas]
        for port in {port for each in ports.values() for port in each}:
            for replica in alone.replicas + pair.replicas:
                if replica.port == port and replica.link:
                    replica.link = None
        times = await asyncio.to_thread(measure, ports)
        base = statistics.median(times["no store"])
        for name, each in times.items():
            middle = statistics.median(each)
            print(f"  {name}: p50 {middle * 1e6:.0f} us, {(middle - base) * 1e6:+.0f} us, of {len(each)} steps")
        return 0


def measure(ports):
    """Times of steps that go to ports in turn, one kind after the other, again and again."""
    stubs = {}
    for port in {port for each in ports.values() for port in each}:
        channel = grpc.insecure_channel(f"127.0.0.1:{port}", [("grpc.use_local_subchannel_pool", 1)])
        path = "/inference.GRPCInferenceService/ModelInfer"
        stubs[port] = channel.unary_unary(path, lambda message: message.SerializeToString(), kserve.ModelInferResponse.FromString)
    times = {name: [] for name in ports}
    for number in range(30):
        for kind, (name, each) in enumerate(ports.items()):
            for step in range(100):
                request = kserve.ModelInferRequest(model_name=MODEL, raw_input_contents=[RAW[step]])
                request.inputs.add(name="audio", datatype="FP32", shape=[1, 512])
                request.parameters["sequence_id"].uint64_param = 1 + 10 * number + kind
                request.parameters["sequence_start"].bool_param = step == 0
                request.parameters["sequence_end"].bool_param = step == 99
                begun = time.perf_counter()
                stubs[each[step % len(each)]](request, timeout=10, metadata=((KEY, f"{step}"),))
                took = time.perf_counter() - begun
                if 10 <= step < 99:
                    times[name].append(took)
    return times


async def run(options):
    """Run the scenarios; gives the number of violations."""
    test, violations = Test(options), 0
    with tempfile.TemporaryDirectory(prefix="ovms-chaos-") as folder, ended():
        folder = Path(folder)
        one = await Fleet(folder, proxied=False).open(None, 1)
        client = Client(one.replicas[0].port, one.replicas[0].rest_port)
        test.table = await right_answers(client)
        await client.close()
        await one.scale(0)
        for name in options.scenarios:
            print(f"{name}, seed {options.seed}", flush=True)
            own = folder / name
            own.mkdir()
            try:
                violations += await getattr(test, name)(own)
            except Exception:
                for process in Process.all:
                    print(f"--- {process.name}: {process.popen.poll()}\n{process.tail()}")
                raise
    return violations


def main():
    """Read the command line, and run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    scenarios = ["chaos", "failover", "failover_wait", "interval", "measure"]
    events = ["scale", "rolling", "kill", "pause", "redis_kill", "cut", "hold"]
    parser.add_argument("scenarios", nargs="*", choices=[*scenarios, []], default=scenarios[:-1])
    parser.add_argument("--seconds", type=float, default=60, help="how long events happen in `chaos`")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument("--live", type=int, default=300, help="sequences at once")
    parser.add_argument("--rate", type=float, default=200, help="steps a second that they are for")
    parser.add_argument("--events", nargs="*", choices=events, default=events)
    options = parser.parse_args()
    violations = asyncio.run(run(options))
    print("passed" if not violations else f"{violations} violations")
    sys.exit(bool(violations))


if __name__ == "__main__":
    main()
