"""Clean Debians for the tests: debootstrap makes one with nothing but the base system, and each test file has a copy of it.

`chroot` stands for the machine, or for the container's engine. All of it needs to be root; without, what asks for a Debian
is skipped with a line.
"""

import os
import shutil
import signal
import socket
import subprocess
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LIMIT = 900.0
START_LIMIT = 60.0
MIRROR = os.environ.get("DEBIAN_MIRROR", "")
# Of those who install something: what the system that the tests run on trusts, and nobody to ask.
INSTALLING = {"PIP_CERT": "/root/certificates.crt", "DEBIAN_FRONTEND": "noninteractive"}


class Debian:
    """A folder with a system, and what commands in it find: variables, and whose they are."""

    def __init__(self, root):
        self.root = root
        self.environment = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
        self.user = "0:0"

    def enter(self, *command, environment=None):
        """What runs a command in the system, which ends with it."""
        variables = [f"{name}={value}" for name, value in {**self.environment, **(environment or {})}.items()]
        mounts = f'mount -t proc proc {self.root}/proc && mount --bind /dev {self.root}/dev && exec "$@"'
        return [
            "unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", mounts, "sh",
            "chroot", f"--userspec={self.user}", str(self.root), "env", "-i", *variables, *command,
        ]  # fmt: skip

    def run(self, *command, **more):
        """Runs a command that is to succeed, and returns what it prints."""
        done = subprocess.run(self.enter(*command, **more), capture_output=True, text=True, timeout=LIMIT)
        assert done.returncode == 0, f"{command}: {done.stdout[-2000:]}{done.stderr[-2000:]}"
        return done.stdout

    @contextmanager
    def serving(self, *command):
        """A server that is ready, and that ends well when it is asked to."""
        log = self.root / "tmp/log"
        with log.open("wb") as out:
            server = subprocess.Popen(self.enter(*command), stdout=out, stderr=subprocess.STDOUT)
        try:
            end = time.monotonic() + START_LIMIT
            while " ready\n" not in log.read_text():
                assert server.poll() is None and time.monotonic() < end, log.read_text()
                time.sleep(0.02)
            yield
        finally:
            # `unshare` waits for it and passes no signal on.
            child = Path(f"/proc/{server.pid}/task/{server.pid}/children").read_text()
            os.kill(int(child), signal.SIGTERM)
            assert server.wait(timeout=30) == 0, log.read_text()


def free_ports(count):
    """Ports that nobody listens on."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    try:
        return [str(one.getsockname()[1]) for one in sockets]
    finally:
        for one in sockets:
            one.close()


@pytest.fixture(scope="session")
def base(tmp_path_factory):
    """The system that others are copies of."""
    debootstrap = shutil.which("debootstrap", path=f"{os.environ['PATH']}:/usr/sbin")
    if debootstrap is None or os.geteuid() != 0 or shutil.which("unshare") is None:
        pytest.skip("debootstrap, unshare, or root is missing: there is no clean Debian")
    root = tmp_path_factory.mktemp("base") / "root"
    made = subprocess.run(
        [debootstrap, "--variant=minbase", "bookworm", str(root), *([MIRROR] if MIRROR else [])],
        capture_output=True, text=True, timeout=LIMIT,
    )  # fmt: skip
    if made.returncode != 0:
        pytest.skip(f"debootstrap makes no Debian here: {made.stdout.splitlines()[-1:]}")
    shutil.copy(os.environ.get("PIP_CERT", "/etc/ssl/certs/ca-certificates.crt"), root / "root/certificates.crt")
    # As engines do.
    for name in ("resolv.conf", "hosts"):
        shutil.copy(f"/etc/{name}", root / "etc")
    return root


@pytest.fixture(scope="module")
def debian(base, tmp_path_factory):
    """A system of the tests of one file."""
    root = tmp_path_factory.mktemp("debian") / "root"
    subprocess.run(["cp", "--archive", base, root], check=True, timeout=LIMIT)
    return Debian(root)
