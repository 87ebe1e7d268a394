"""Processes under measurement: their descendants, processor time, memory, and end (Linux, proc(5))."""

import contextlib
import ctypes
import os
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")
TICKS = os.sysconf("SC_CLK_TCK")
# Seconds between SIGTERM and SIGKILL.
GRACE = 10.0
PR_SET_PDEATHSIG = 1
LIBC = ctypes.CDLL(None)


@dataclass(frozen=True)
class Stat:
    """The fields of `/proc/PID/stat` in use; times in seconds."""

    state: str
    parent: int
    session: int
    own: float
    waited: float
    started: int


def parse_stat(text):
    """Reads `/proc/PID/stat`; the name, in brackets, may contain spaces and brackets."""
    fields = text.rpartition(")")[2].split()
    user, system, waited_user, waited_system = (int(field) / TICKS for field in fields[11:15])
    return Stat(
        state=fields[0],
        parent=int(fields[1]),
        session=int(fields[3]),
        own=user + system,
        waited=waited_user + waited_system,
        started=int(fields[19]),
    )


def stats():
    """All processes by id."""
    found = {}
    for folder in PROC.iterdir():
        if folder.name.isdigit():
            with contextlib.suppress(OSError):
                found[int(folder.name)] = parse_stat((folder / "stat").read_text())
    return found


def below(root, table):
    """A process, its descendants, and those of its session whose parent has ended."""
    tree = {root} & table.keys() | {pid for pid, stat in table.items() if stat.session == root}
    while True:
        more = {pid for pid, stat in table.items() if stat.parent in tree} - tree
        if not more:
            return tree
        tree |= more


def own_seconds(pid, stat):
    """Processor time of one process, to the nanosecond: ticks are coarse against a turn."""
    with contextlib.suppress(OSError):
        # CPUCLOCK_SCHED of a process; see clock_getcpuclockid(3).
        return time.clock_gettime(~pid << 3 | 2)
    return stat.own


def cpu_seconds(root):
    """Processor time of a process and its descendants, those that have ended and were waited for included."""
    table = stats()
    return sum(own_seconds(pid, table[pid]) + table[pid].waited for pid in below(root, table))


def memory_mb(root):
    """Resident memory of a process and its descendants; what several of them share counts once."""
    total = 0
    for pid in below(root, stats()):
        with contextlib.suppress(OSError):
            for line in (PROC / str(pid) / "smaps_rollup").read_text().splitlines():
                if line.startswith("Pss:"):
                    total += int(line.split()[1])
    return total / 1024


def machine_seconds():
    """Busy and total time of all processors; time of the hypervisor's other guests counts as busy."""
    fields = [int(field) / TICKS for field in (PROC / "stat").read_text().split("\n", 1)[0].split()[1:9]]
    idle = fields[3] + fields[4]
    return sum(fields) - idle, sum(fields)


class OtherWork:
    """Share of the machine that processes outside the bench take; between `__enter__` and `__exit__`."""

    def __enter__(self):
        self.before = (*machine_seconds(), cpu_seconds(os.getpid()))
        self.share = 0.0
        return self

    def __exit__(self, *_):
        busy, total, ours = (
            after - before
            for after, before in zip(
                (*machine_seconds(), cpu_seconds(os.getpid())), self.before, strict=True
            )
        )
        self.share = max(0.0, busy - ours) / total if total else 0.0


def _end_with_parent():
    """Has the kernel end this process if the bench is killed; runs in the child before its program."""
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


def start(command, log, environment=None, folder=None):
    """Starts a server in a session of its own, so that Ctrl-C reaches the bench only."""
    with open(log, "wb") as output:
        return subprocess.Popen(
            [str(part) for part in command],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, **(environment or {})},
            cwd=folder,
            start_new_session=True,
            preexec_fn=_end_with_parent,
        )


def stop(process):
    """Ends a server and its descendants, by their ids."""
    before = stats()
    tree = {pid: before[pid].started for pid in below(process.pid, before)}

    def left():
        process.poll()
        now = stats()
        same = [pid for pid, started in tree.items() if pid in now and now[pid].started == started]
        # A zombie has ended, and nobody has waited for it yet.
        return [pid for pid in same if now[pid].state != "Z"]

    def wait(seconds):
        end = time.monotonic() + seconds
        while left() and time.monotonic() < end:
            time.sleep(0.02)

    if process.poll() is None:
        process.terminate()
    wait(GRACE)
    for pid in left():
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    wait(GRACE)
