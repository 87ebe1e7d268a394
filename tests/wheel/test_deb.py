"""The Debian package: it has the program of the wheel, and is installed, used, and removed in a Debian that has nothing but
its base system.

DEB names it, and WHEEL the wheel.
"""

import hashlib
import os
import re
import shutil
import subprocess
import zipfile
from pathlib import Path

import pytest

from conftest import INSTALLING, ROOT, free_ports

DEB = Path(os.environ["DEB"]).absolute()
WHEEL = Path(os.environ["WHEEL"]).absolute()
CONF_FILES = ["etc/ovms/config.json", "etc/default/ovms"]
UNIT = "lib/systemd/system/ovms.service"


def dpkg_deb(*arguments):
    """What dpkg-deb says, where there is one."""
    program = shutil.which("dpkg-deb")
    if program is None:
        pytest.skip("dpkg-deb is missing: nobody looks into the package")
    return subprocess.run([program, *arguments], capture_output=True, text=True, check=True).stdout.strip()


def test_the_program_is_that_of_the_wheel(tmp_path):
    dpkg_deb("--extract", DEB, tmp_path)
    wheel = zipfile.ZipFile(WHEEL)
    (program,) = [name for name in wheel.namelist() if name.endswith(".data/scripts/ovms")]
    packed = (tmp_path / "usr/bin/ovms").read_bytes()
    assert hashlib.sha256(packed).hexdigest() == hashlib.sha256(wheel.read(program)).hexdigest()


def test_it_depends_on_the_c_library_of_the_wheel():
    oldest = re.search(r"manylinux_(\d+)_(\d+)_", WHEEL.name)
    assert dpkg_deb("--field", DEB, "Depends") == f"libc6 (>= {oldest[1]}.{oldest[2]})"


@pytest.fixture(scope="module")
def installed(debian):
    """A Debian with the package and what it recommends, installed as its manual says."""
    shutil.copy(DEB, debian.root / "tmp")
    debian.run("apt-get", "update", environment=INSTALLING)
    debian.run("apt-get", "install", "--yes", f"/tmp/{DEB.name}", environment=INSTALLING)
    return debian


def test_it_is_installed(installed):
    assert re.fullmatch(r"ovms \d+\.\d+\.\d+\n", installed.run("ovms", "--version"))
    assert "serve" in installed.run("ovms", "--help")
    for name in [UNIT, *CONF_FILES]:
        assert (installed.root / name).is_file(), name
    conf_files = installed.run("dpkg-query", "--show", "--showformat=${Conffiles}", "ovms")
    assert sorted(re.findall(r"/(\S+)", conf_files)) == sorted(CONF_FILES)
    # At first there is no runtime, and no model.
    assert not list((installed.root / "etc/systemd/system").glob("*/ovms.service"))
    assert installed.run("dpkg", "--verify", "ovms") == ""


def test_it_is_linked_with_what_it_depends_on(installed):
    libraries = re.findall(r"^\s*(?:\S+ => )?/(?:\S+/)?(\S+) \(", installed.run("ldd", "/usr/bin/ovms"), re.MULTILINE)
    assert "libc.so.6" in libraries
    assert set(libraries) <= {Path(line).name for line in installed.run("dpkg", "--listfiles", "libc6").splitlines()}


def test_it_serves_with_the_runtime_that_setup_installs(installed):
    """Where the unit looks for it, and as a user who owns nothing."""
    settings = dict(re.findall(r"^(\w+)=(\S+)$", (installed.root / "etc/default/ovms").read_text(), re.MULTILINE))
    runtime = {"OPENVINO_INSTALL_DIR": settings["OPENVINO_INSTALL_DIR"]}
    installed.run("ovms", "setup", "--dir", runtime["OPENVINO_INSTALL_DIR"], environment=INSTALLING)
    installed.environment.update(runtime, HOME="/tmp")
    shutil.copy(ROOT / "fixtures/images/star.png", installed.root / "tmp")
    port, rest_port = free_ports(2)
    installed.user = "65532:65532"
    try:
        with installed.serving("ovms", "serve", "--demo", "--port", port, "--rest-port", rest_port):
            asking = ["--url", f"localhost:{port}", "-i", "@/tmp/star.png", "--top", "1"]
            answer = installed.run("ovms", "infer", "classifier", *asking)
            assert "0.9" in answer, answer
    finally:
        installed.user = "0:0"


def test_its_removal_leaves_what_is_the_administrators(installed):
    """Settings until it is purged; the runtime, which the package did not bring, for longer."""
    installed.run("apt-get", "remove", "--yes", "ovms", environment=INSTALLING)
    for name in ["usr/bin/ovms", UNIT]:
        assert not (installed.root / name).exists(), name
    for name in CONF_FILES:
        assert (installed.root / name).is_file(), name
    installed.run("apt-get", "purge", "--yes", "ovms", environment=INSTALLING)
    for name in ["usr/share/doc/ovms", "etc/ovms", *CONF_FILES]:
        assert not (installed.root / name).exists(), name
    assert not [path for path in installed.root.glob("usr/share/**/ovms*")]
    assert (installed.root / "var/lib/ovms/runtime").is_dir()
