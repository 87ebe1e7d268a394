"""`.ci/run`: what it hands to `make`, which here is a script that writes down what it was given."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import ROOT

MAKE = f"""#!{sys.executable}
import json, os, sys
home, cargo = os.environ["HOME"], os.environ["CARGO_HOME"]
read = lambda path: open(path).read() if os.path.exists(path) else None
files = sorted(os.path.join(at, name) for at, _, names in os.walk(".") for name in names)
given = {{
    "arguments": sys.argv[1:],
    "folder": os.getcwd(),
    "files": [name[2:] for name in files if not name.startswith("./.git/")],
    "changed": read("changed"),
    "home": os.listdir(home),
    "cargo": sorted(os.listdir(cargo)),
    "config": read(cargo + "/config.toml"),
    "environment": dict(os.environ),
}}
json.dump(given, open(os.environ["GIVEN"], "w"))
sys.exit(int(os.environ.get("MAKE_FAILS", "0")))
"""

CONFIG = """[build]
target-dir = "/somewhere"
[source.crates-io]
replace-with = "mirror"
[source.mirror]
registry = "sparse+https://mirror.example/index/"
[alias]
b = "build"
[registries]
other = { index = "sparse+https://other.example/index/" }
[http]
cainfo = "/ca.pem"
"""


@pytest.fixture
def machine(tmp_path):
    """A user with a toolchain of rustup, and a small project with the script."""
    if not shutil.which("git"):
        pytest.skip("no git here")
    home, project, bin = tmp_path / "home", tmp_path / "project", tmp_path / "bin"
    for folder in (home / ".cargo/bin", home / "toolchain/bin", project / ".ci", bin):
        folder.mkdir(parents=True)
    shutil.copy(ROOT / ".ci/run", project / ".ci/run")
    cargo = home / "toolchain/bin/cargo"
    rustup = home / ".cargo/bin/rustup"
    for path, text in ((bin / "make", MAKE), (rustup, f"#!/bin/sh\necho {cargo}\n"), (cargo, "")):
        path.write_text(text)
        path.chmod(0o755)
    (project / ".gitignore").write_text("target\n.venv\n")
    for name in ("changed", "gone"):
        (project / name).write_text("old")
    git = ["git", "-c", "user.name=n", "-c", "user.email=e", "-C", str(project)]
    for command in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", "first"]):
        subprocess.run([*git, *command], check=True)
    (tmp_path / "scratch").mkdir()
    return tmp_path


def run(machine, **more):
    """Run the script, and return its end and what make was given."""
    given = machine / "given"
    cargo_bin = machine / "home/.cargo/bin"
    environment = {
        "PATH": f"{machine / 'bin'}:{cargo_bin}:{os.environ['PATH']}",
        "HOME": str(machine / "home"),
        "TMPDIR": str(machine / "scratch"),
        "GIVEN": str(given),
        **more,
    }
    done = subprocess.run(
        [machine / "project/.ci/run"], env=environment, capture_output=True, text=True, timeout=60
    )
    assert given.exists(), done.stderr
    assert not any((machine / "scratch").iterdir()), "it leaves nothing"
    return done, json.loads(given.read_text())


def test_nothing_of_the_machine_is_left_but_the_toolchain(machine):
    """A new home, in a clone that was never built; and the end of make is that of the script."""
    caches = {
        "CARGO_TARGET_DIR": "/elsewhere",
        "RUSTC_WRAPPER": "sccache",
        "OPENVINO_INSTALL_DIR": "/runtime",
        "XDG_CACHE_HOME": "/caches",
        "PIP_CACHE_DIR": "/caches/pip",
        "HTTPS_PROXY": "http://proxy.example",
    }
    done, given = run(machine, **caches, MAKE_FAILS="3")
    assert done.returncode == 3
    assert given["arguments"] == ["test"]
    assert given["folder"] == str(machine / "project")
    assert (given["home"], given["cargo"]) == ([], [])
    environment = given["environment"]
    for name in ("HOME", "CARGO_HOME", "PIP_CACHE_DIR", "NPM_CONFIG_CACHE", "TMPDIR"):
        assert environment[name].startswith(str(machine / "scratch/ovms-ci.")), name
    for name in ("CARGO_TARGET_DIR", "RUSTC_WRAPPER", "OPENVINO_INSTALL_DIR", "XDG_CACHE_HOME"):
        assert name not in environment
    assert environment["HTTPS_PROXY"] == "http://proxy.example"
    places = environment["PATH"].split(":")
    assert places[0] == str(machine / "home/toolchain/bin")
    assert str(machine / "home/.cargo/bin") not in places
    assert Path(environment["PYTHON"]).is_absolute()


def test_settings_of_registries_are_passed_on(machine):
    """Those alone: what else is set there may hide a step."""
    home = machine / "home"
    (home / ".cargo/config.toml").write_text(CONFIG)
    (home / ".cargo/credentials.toml").write_text("")
    (home / ".config/pip").mkdir(parents=True)
    for name in (".npmrc", ".netrc", ".config/pip/pip.conf"):
        (home / name).write_text("")
    _, given = run(machine)
    assert given["cargo"] == ["config.toml", "credentials.toml"]
    kept = CONFIG.splitlines()
    assert given["config"].splitlines() == kept[2:6] + kept[8:]
    environment = given["environment"]
    assert environment["NPM_CONFIG_USERCONFIG"] == str(home / ".npmrc")
    assert environment["PIP_CONFIG_FILE"] == str(home / ".config/pip/pip.conf")
    assert environment["NETRC"] == str(home / ".netrc")

    _, given = run(machine, PIP_CONFIG_FILE="/of/the/environment")
    assert given["environment"]["PIP_CONFIG_FILE"] == "/of/the/environment"


def test_without_such_settings_none_are_named(machine):
    """A file that is named and not there would be an error to some programs."""
    _, given = run(machine)
    for name in ("NPM_CONFIG_USERCONFIG", "PIP_CONFIG_FILE", "NETRC"):
        assert name not in given["environment"]


def test_a_folder_that_was_built_is_left_and_its_files_are_tried_elsewhere(machine):
    """As they are now: changed, removed, and new ones; not those that git ignores."""
    project = machine / "project"
    (project / "target").mkdir()
    (project / "target/left").write_text("")
    (project / "changed").write_text("new")
    (project / "gone").unlink()
    (project / "added").write_text("")
    before = subprocess.check_output(["git", "-C", project, "status", "--porcelain"])
    _, given = run(machine)
    assert given["folder"].startswith(str(machine / "scratch"))
    assert given["files"] == [".ci/run", ".gitignore", "added", "changed"]
    assert given["changed"] == "new"
    assert (project / "target/left").exists()
    assert subprocess.check_output(["git", "-C", project, "status", "--porcelain"]) == before
