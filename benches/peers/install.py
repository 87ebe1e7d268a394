"""Gets the servers and loads of the comparison from the package registries, without being root.

    python benches/peers/install.py FOLDER [SERVER,…]

All servers, or some, and the loads. Each goes into FOLDER/NAME, and is left alone from then on until what is
pinned changes. What cannot be installed is no failure of this script: the reason goes into FOLDER/reasons.json, and
from there into the tables.
"""

import hashlib
import json
import shutil
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(ROOT / "tests/tools"))
import install as debian  # noqa: E402
from apt import Apt  # noqa: E402

LIMIT = 600.0  # seconds for one environment
SERVERS = ["triton", "mlserver", "kserve", "nginx"]
LOADS = ["h2load", "perf_analyzer"]
# Programs of Debian's; all else is of PyPI.
TOOLS = ["nginx", "h2load"]
# Of Debian's packages, a library of perf_analyzer.
LIBRARIES = "libb64-0d"


def requirements(name):
    """The pinned packages of an environment."""
    return HERE / "requirements" / f"{name}.txt"


def environment(name, folder):
    """Makes a virtual environment; perf_analyzer is a program and needs none of what its package depends on."""
    stamp = folder / f".stamp-{hashlib.sha256(requirements(name).read_bytes()).hexdigest()[:12]}"
    if stamp.exists():
        return
    shutil.rmtree(folder, ignore_errors=True)
    venv.create(folder, with_pip=True)
    command = [folder / "bin/python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    if name == "perf_analyzer":
        command.append("--no-deps")
    done = subprocess.run(
        [*command, "-r", requirements(name)],
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"pip: {reason(done.stderr or done.stdout)}")
    if name == "perf_analyzer":
        with tempfile.TemporaryDirectory(dir=folder) as work:
            Apt(Path(work)).download([LIBRARIES], folder / "debian")
    stamp.touch()


def tool(name, folder):
    """Unpacks a program of Debian's, unless it is here already."""
    if any((place / "bin" / name).exists() for place in (folder, ROOT / "target/tools")):
        return
    shutil.rmtree(folder / name, ignore_errors=True)
    debian.get(name, folder)


def reason(text):
    """The line of an output that says most: the first error, or the last line."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("ERROR:")]
    return (errors or lines[-1:] or ["no output"])[0].removeprefix("ERROR:").strip()[:200]


def get(name, folder):
    """Gets one; returns why it cannot be installed, or `None`."""
    try:
        if name not in TOOLS:
            environment(name, folder / name)
        elif not shutil.which(name):
            tool(name, folder / "tools")
    except (RuntimeError, OSError, subprocess.SubprocessError) as error:
        return reason(str(error)) if str(error) else type(error).__name__
    return None


def main(folder, names):
    """Gets the loads, and the servers that are named, or all."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "reasons.json"
    reasons = json.loads(file.read_text()) if file.exists() else {}
    for name in [*(name for name in SERVERS if not names or name in names), *LOADS]:
        why = get(name, folder)
        reasons.pop(name, None)
        if why:
            reasons[name] = why
            print(f"{name} cannot be installed: {why}", file=sys.stderr)
    file.write_text(json.dumps(reasons, indent=2) + "\n")


if __name__ == "__main__":
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    main(Path(sys.argv[1]).absolute(), ",".join(sys.argv[2:]).split(",") if sys.argv[2:] else [])
