"""Everything at once on one server: tests/soak for 40 seconds, with longer pauses, and a loose limit on memory."""

import json
import os
import signal
import subprocess
import sys

import pytest

from conftest import ROOT

sys.path.insert(0, str(ROOT / "tests/soak"))
from mixed import check, np  # noqa: E402
from soak import growth  # noqa: E402
from served import below  # noqa: E402

COMMAND = [sys.executable, str(ROOT / "tests/soak/soak.py")]


def test_everything_at_once(tmp_path):
    """Each answer is right, whatever is changed or broken meanwhile."""
    path = tmp_path / "soak.json"
    # Without pauses it would take all that the machine has, and the tests beside it their time.
    command = [*COMMAND, "--seconds", "40", "--pace", "3", "--memory", "40", "--json", str(path)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=240)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    report = json.loads(path.read_text())
    assert report["passed"] and not report["errors"]
    assert all(kind["done"] for kind in report["kinds"].values())
    assert report["sequences"]["steps"] > 100


def test_an_interrupt_ends_all_of_it():
    """With the server, and its workers."""
    with subprocess.Popen([*COMMAND, "--seconds", "60"], stdout=subprocess.PIPE, text=True, start_new_session=True) as run:
        assert run.stdout.readline().startswith("soak, 60 s")
        while not (started := below(run.pid)):
            assert run.poll() is None
        os.killpg(run.pid, signal.SIGINT)
        assert run.wait(timeout=30) == 130
        assert not any(os.path.exists(f"/proc/{process}") for process in started)


def test_growth_is_that_of_the_medians_after_the_first_sixth():
    """A peak does not count, nor does the warm-up."""
    flat = [(at, 100.0, 20.0 + (at < 20), 10) for at in range(120)]
    flat[50] = (50, 1000.0, 0.0, 10)
    assert growth(flat, 120) == ([121.0] * 2 + [120.0] * 10, 0.0)
    leak = [(at, 100.0 + at, 0.0, 10) for at in range(120)]
    medians, grown = growth(leak, 120)
    assert medians[2] == 124.5 and grown == pytest.approx(90 / 124.5)


def test_a_wrong_answer_is_seen():
    """Of numbers, and of bytes."""
    right = np.arange(3, dtype=np.float32)
    check(right.tobytes(), right)
    check([0, 1, 2], right)
    for wrong in ((right + 1).tobytes(), [0, 1], [0, 1, 3]):
        with pytest.raises(AssertionError, match="wrong answer"):
            check(wrong, right)
