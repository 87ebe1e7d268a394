"""The container file, followed step by step in a Debian that has nothing but its base system."""

import json
import os
import re
import shutil
from pathlib import Path

import pytest

from conftest import INSTALLING, ROOT, free_ports

WHEEL = Path(os.environ["WHEEL"]).absolute()


def instructions():
    """The instructions of the container file, continued lines put together."""
    text = (ROOT / "deploy/Containerfile").read_text()
    text = "\n".join(line for line in text.splitlines() if not line.startswith("#"))
    lines = text.replace("\\\n", " ").splitlines()
    return [tuple(line.split(None, 1)) for line in lines if line.strip()]


def follow(debian):
    """Does what the container file says, and returns the commands that it names."""
    commands = {}
    for instruction, rest in instructions():
        if instruction == "RUN":
            debian.run("sh", "-c", rest, environment=INSTALLING)
        elif instruction == "COPY":
            shutil.copy(WHEEL, debian.root / "tmp")
        elif instruction == "ENV":
            debian.environment.update(word.split("=", 1) for word in rest.split())
        elif instruction == "USER":
            debian.user = rest
        elif instruction in ("ENTRYPOINT", "CMD"):
            commands[instruction] = json.loads(rest)
        elif instruction == "HEALTHCHECK":
            commands[instruction] = json.loads(re.search(r"CMD (\[.*\])", rest)[1])
    return commands


@pytest.fixture(scope="module")
def commands(debian):
    """The commands of the image that the Debian is made to."""
    return follow(debian)


def test_an_image_made_from_it_may_be_as_from_that_of_the_cpp_server(debian, commands):
    """`pip3` installs where Python nodes look, and the program has its path there."""
    packages = json.loads(debian.run("pip3", "list", "--format", "json"))
    assert {"ovms", "numpy"} <= {package["name"] for package in packages}
    assert "/opt/openvino/" in debian.run("pip3", "--version")
    assert debian.run("/ovms/bin/ovms", "--version") == debian.run("ovms", "--version")


def test_the_container_serves_and_says_that_it_is_well(debian, commands):
    """With its own command, as its own user, from its own files."""
    port, rest_port = free_ports(2)
    ports = {"9000": port, "8000": rest_port}
    shutil.copytree(ROOT / "fixtures/models/classifier", debian.root / "models/classifier")
    (debian.root / "etc/ovms").mkdir()
    entry = {"config": {"name": "classifier", "base_path": "/models/classifier"}}
    (debian.root / "etc/ovms/config.json").write_text(json.dumps({"model_config_list": [entry]}))
    command = [ports.get(word, word) for word in commands["ENTRYPOINT"] + commands["CMD"]]
    with debian.serving(*command):
        asking = {"OVMS_URL": f"localhost:{port}"}
        debian.run(*commands["HEALTHCHECK"], environment=asking)
        answer = debian.run("ovms", "infer", "classifier", "--random", "--output", "json", environment=asking)
        assert json.loads(answer)
