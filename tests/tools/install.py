"""Gets programs that tests need beyond Cargo and pip, without being root.

    python install.py FOLDER NAME…

A program that the system has is left to it. Otherwise Debian's packages, with those that they need and the
system lacks, are unpacked into FOLDER, and FOLDER/bin/NAME starts the program. One that
cannot be installed is named in a line, and its tests are skipped; that is no failure of this script.
"""

import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from apt import LIMIT, Apt, run  # noqa: E402

FONTS = """<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "urn:fontconfig:fonts.dtd">
<fontconfig><dir>/usr/share/fonts</dir><dir>{root}/usr/share/fonts</dir><cachedir>{root}/cache</cachedir></fontconfig>
"""

# What to unpack, the program in it, its environment below the folder, and how to see that it works.
TOOLS = {
    # Its modules are part of it; those of the other package are looked for below /usr.
    "zsh": {
        "packages": ["zsh-static", "zsh-common"],
        "program": "bin/zsh-static",
        "environment": {"FPATH": "usr/share/zsh/functions/**/"},
        "probe": ["-fc", "autoload -Uz compinit && compinit -D && zmodload zsh/zutil zsh/complete zsh/computil zsh/parameter && autoload +X _arguments _path_files"],
    },
    "fish": {
        "packages": ["fish"],
        "program": "usr/bin/fish",
        "environment": {},
        "probe": ["--no-config", "-c", "complete -C 'cd /'"],
    },
    "nginx": {
        "packages": ["nginx"],
        "program": "usr/sbin/nginx",
        "environment": {},
        "probe": ["-v"],
    },
    # The package has a link to the program of the other one, which the server is by its name.
    "redis-server": {
        "packages": ["redis-server", "redis-tools"],
        "program": "usr/bin/redis-server",
        "environment": {},
        "probe": ["--version"],
    },
    "haproxy": {
        "packages": ["haproxy"],
        "program": "usr/sbin/haproxy",
        "environment": {},
        "probe": ["-v"],
    },
    "h2load": {
        "packages": ["nghttp2-client"],
        "program": "usr/bin/h2load",
        "environment": {},
        "probe": ["--version"],
    },
    # Its parts are looked for below /usr otherwise.
    "valgrind": {
        "packages": ["valgrind"],
        "program": "usr/bin/valgrind",
        "environment": {"VALGRIND_LIB": "usr/libexec/valgrind/"},
        "probe": ["--tool=dhat", "--dhat-out-file=/dev/null", "/bin/true"],
    },
    "chromium": {
        "packages": ["chromium-headless-shell", "fonts-dejavu-core"],
        "program": "usr/lib/chromium/chromium-headless-shell",
        "environment": {"FONTCONFIG_FILE": "fonts.conf"},
        "probe": ["--no-sandbox", "--disable-gpu", "--dump-dom", "data:text/html,<p>works"],
    },
}


def starter(tool, root):
    """The script that starts a program of the folder with the libraries of the folder."""
    lines = ["#!/bin/sh"]
    variables = {}
    for name, place in tool["environment"].items():
        found = (path for path in root.glob(place) if path.is_dir() or not place.endswith("/"))
        values = sorted(str(path) for path in found)
        variables[name] = ":".join(values)
    libraries = {path.parent for path in root.rglob("*.so*") if "lib" in path.parent.parts}
    # PulseAudio's are found by a path below /usr otherwise.
    usual = [
        path
        for path in sorted(libraries)
        if path.name.endswith("-linux-gnu") or path.name == "pulseaudio"
    ]
    if usual:
        variables["LD_LIBRARY_PATH"] = ":".join(str(path) for path in usual)
    for name, value in variables.items():
        lines.append(f"export {name}={shlex.quote(value)}")
    lines.append(f'exec {shlex.quote(str(root / tool["program"]))} "$@"')
    return "\n".join(lines) + "\n"


def get(name, folder):
    """Unpack a program and try it out; raises if that fails."""
    tool = TOOLS[name]
    if not (shutil.which("apt-get") and shutil.which("dpkg")):
        raise RuntimeError("there is no apt to get it with")
    root = folder / name
    root.mkdir(parents=True)
    with tempfile.TemporaryDirectory(dir=root) as work:
        apt = Apt(Path(work))
        wanted = sorted({*tool["packages"], *apt.lacking(tool["packages"])})
        apt.download(wanted, root)
    (root / "fonts.conf").write_text(FONTS.format(root=root))
    if not (root / "usr/etc").exists() and (root / "etc").exists():
        # Programs that look for their files from where they are.
        (root / "usr/etc").symlink_to("../etc")
    start = folder / "bin" / name
    start.parent.mkdir(exist_ok=True)
    start.write_text(starter(tool, root))
    start.chmod(0o755)
    try:
        run(start, *tool["probe"])
    except (RuntimeError, OSError, subprocess.TimeoutExpired):
        start.unlink()
        raise


def main(folder, names):
    """Get what the system lacks."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        if shutil.which(name):
            continue
        shutil.rmtree(folder / name, ignore_errors=True)
        (folder / "bin" / name).unlink(missing_ok=True)
        try:
            get(name, folder)
        except (RuntimeError, OSError, subprocess.TimeoutExpired) as error:
            reason = str(error).splitlines()[-1] if str(error) else type(error).__name__
            print(f"SKIPPED: tests with {name}; it is missing and cannot be installed: {reason}")


if __name__ == "__main__":
    main(Path(os.path.abspath(sys.argv[1])), sys.argv[2:])
