"""The container file, followed step by step in a Debian that has nothing but its base system.

debootstrap makes it, and `chroot` stands for the container's engine; both need to be root. Without them, the tests are
skipped with a line.
"""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
WHEEL = Path(os.environ["WHEEL"]).absolute()
LIMIT = 900.0
START_LIMIT = 60.0
MIRROR = os.environ.get("DEBIAN_MIRROR", "")


def instructions():
    """The instructions of the container file, continued lines put together."""
    text = (ROOT / "deploy/Containerfile").read_text()
    text = "\n".join(line for line in text.splitlines() if not line.startswith("#"))
    lines = text.replace("\\\n", " ").splitlines()
    return [tuple(line.split(None, 1)) for line in lines if line.strip()]


class Image:
    """A folder with a system, and what the container file says of it."""

    def __init__(self, root):
        self.root = root
        self.environment = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
        self.user = "0:0"
        self.command = {}

    def enter(self, *command, environment=None):
        """What runs a command in the system, which ends with it."""
        variables = [f"{name}={value}" for name, value in {**self.environment, **(environment or {})}.items()]
        mounts = f"mount -t proc proc {self.root}/proc && mount --bind /dev {self.root}/dev && exec \"$@\""
        return [
            "unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", mounts, "sh",
            "chroot", f"--userspec={self.user}", str(self.root), "env", "-i", *variables, *command,
        ]  # fmt: skip

    def run(self, *command, **more):
        done = subprocess.run(self.enter(*command, **more), capture_output=True, text=True, timeout=LIMIT)
        assert done.returncode == 0, f"{command}: {done.stdout[-2000:]}{done.stderr[-2000:]}"
        return done.stdout

    def follow(self):
        """Does what the container file says."""
        certificates = os.environ.get("PIP_CERT", "/etc/ssl/certs/ca-certificates.crt")
        shutil.copy(certificates, self.root / "root/certificates.crt")
        # As engines do.
        for name in ("resolv.conf", "hosts"):
            shutil.copy(f"/etc/{name}", self.root / "etc")
        building = {"PIP_CERT": "/root/certificates.crt", "DEBIAN_FRONTEND": "noninteractive"}
        for instruction, rest in instructions():
            if instruction == "RUN":
                self.run("sh", "-c", rest, environment=building)
            elif instruction == "COPY":
                shutil.copy(WHEEL, self.root / "tmp")
            elif instruction == "ENV":
                self.environment.update(word.split("=", 1) for word in rest.split())
            elif instruction == "USER":
                self.user = rest
            elif instruction in ("ENTRYPOINT", "CMD"):
                self.command[instruction] = json.loads(rest)
            elif instruction == "HEALTHCHECK":
                self.command[instruction] = json.loads(re.search(r"CMD (\[.*\])", rest)[1])


@pytest.fixture(scope="module")
def image(tmp_path_factory):
    """The image, made as its file says."""
    debootstrap = shutil.which("debootstrap", path=f"{os.environ['PATH']}:/usr/sbin")
    if debootstrap is None or os.geteuid() != 0 or shutil.which("unshare") is None:
        pytest.skip("debootstrap, unshare, or root is missing: the container file is not followed")
    root = tmp_path_factory.mktemp("image") / "root"
    made = subprocess.run(
        [debootstrap, "--variant=minbase", "bookworm", str(root), *([MIRROR] if MIRROR else [])],
        capture_output=True, text=True, timeout=LIMIT,
    )  # fmt: skip
    if made.returncode != 0:
        pytest.skip(f"debootstrap makes no Debian here: {made.stdout.splitlines()[-1:]}")
    image = Image(root)
    image.follow()
    return image


def test_the_container_serves_and_says_that_it_is_well(image):
    """With its own command, as its own user, from its own files."""
    with socket.create_server(("127.0.0.1", 0)) as first, socket.create_server(("127.0.0.1", 0)) as second:
        ports = {"9000": str(first.getsockname()[1]), "8000": str(second.getsockname()[1])}
    model = image.root / "models/classifier"
    shutil.copytree(ROOT / "fixtures/models/classifier", model)
    (image.root / "etc/ovms").mkdir()
    entry = {"config": {"name": "classifier", "base_path": "/models/classifier"}}
    (image.root / "etc/ovms/config.json").write_text(json.dumps({"model_config_list": [entry]}))
    command = [ports.get(word, word) for word in image.command["ENTRYPOINT"] + image.command["CMD"]]
    log = image.root / "tmp/log"
    with log.open("wb") as out:
        server = subprocess.Popen(image.enter(*command), stdout=out, stderr=subprocess.STDOUT)
    try:
        end = time.monotonic() + START_LIMIT
        while " ready\n" not in log.read_text():
            assert server.poll() is None and time.monotonic() < end, log.read_text()
            time.sleep(0.02)
        asking = {"OVMS_URL": f"localhost:{ports['9000']}"}
        image.run(*image.command["HEALTHCHECK"], environment=asking)
        answer = image.run("ovms", "infer", "classifier", "--random", "--output", "json", environment=asking)
        assert json.loads(answer)
    finally:
        # `unshare` waits for it and passes no signal on.
        child = Path(f"/proc/{server.pid}/task/{server.pid}/children").read_text()
        os.kill(int(child), signal.SIGTERM)
        assert server.wait(timeout=30) == 0, log.read_text()
