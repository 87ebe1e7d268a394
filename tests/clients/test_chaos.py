"""Sequences over several replicas while these, and their store, come, go, stall, and die: tests/chaos for a minute."""

import subprocess
import sys

import pytest

from conftest import ROOT

sys.path.insert(0, str(ROOT / "tests/chaos"))
from engines import find  # noqa: E402


@pytest.mark.parametrize("scenario", ["chaos", "failover", "failover_wait", "interval"])
def test_sequences_survive(scenario):
    """Each answer is right, and nothing is lost but where that is told."""
    for name in ("haproxy", "redis-server"):
        if find(name) is None:
            pytest.skip(f"no {name} here; `make test-tools` gets it")
    command = [sys.executable, str(ROOT / "tests/chaos/run.py"), scenario, "--seconds", "40"]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=300)
    print(ran.stdout)
    assert ran.returncode == 0, ran.stdout + ran.stderr
