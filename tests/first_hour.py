"""A new user's first hour: a clean clone, an empty home folder, and every command of the README.

    python3 tests/first_hour.py [--page README.md …] [--write docs/first-hour.md]

What is committed is cloned; `make demo` builds it with an empty Cargo home, and then the commands of the pages
are run as they stand there, on the ports that they name. Each is printed with the time at which it
began and how long it took. The first that fails ends it; 2 is a warning.
"""

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# What says where packages are to be had; all else of the environment is left behind.
KEPT = re.compile(r"(PIP_|CARGO_(REGISTR|NET|HTTP|SOURCE)|RUSTUP_AUTO|SSL_|(https?|no)_proxy$)", re.IGNORECASE)
LIMIT = 3600.0  # seconds for a command
STEPS = re.compile(r"\s*(Updating|Download|Compiling|Locking|Adding|Collecting|warning)")
SHOWN = 14  # lines of what it says
# What pages show without running it: these write to the home folder, or depend on the machine.
REST = ["ovms doctor", "ovms completions bash --install", "ovms man infer | head -8"]


class Hour:
    """The transcript, the server that runs, and where all of this happens."""

    def __init__(self, folder):
        self.folder = folder
        self.clone = folder / "ovms"
        self.lines = []
        self.server = None
        home = folder / "home"
        home.mkdir()
        kept = {name: value for name, value in os.environ.items() if KEPT.match(name)}
        rustup = os.environ.get("RUSTUP_HOME", str(Path.home() / ".rustup"))
        bins = f"{self.clone}/target/demo:{home}/.cargo/bin:{os.environ['PATH']}"
        self.environment = kept | {
            "HOME": str(home),
            "PATH": bins,
            "RUSTUP_HOME": rustup,
            "TERM": "xterm",
            "LANG": "C.UTF-8",
        }
        self.began = time.monotonic()

    def at(self):
        """Minutes and seconds since the start."""
        seconds = int(time.monotonic() - self.began)
        return f"{seconds // 60:02}:{seconds % 60:02}"

    def note(self, text):
        """Write a line."""
        for place, name in [(self.environment["HOME"], "~"), (str(self.clone), "~/ovms")]:
            text = text.replace(place, name)
        self.lines.append(text.rstrip())
        print(text.rstrip(), flush=True)

    def run(self, command, cwd=None):
        """Run a command and print what it says."""
        if command.startswith("ovms serve"):
            return self.serve(command)
        began, at = time.monotonic(), self.at()
        self.note(f"{at}  $ {command}")
        done = subprocess.run(
            ["sh", "-c", command],
            cwd=cwd or self.clone,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=LIMIT,
        )
        # What Cargo and pip do for minutes is not printed line by line.
        said = [line for line in done.stdout.rstrip().splitlines() if not STEPS.match(line)]
        if len(said) > SHOWN:
            said = [*said[: SHOWN // 2], f"… {len(said) - SHOWN} lines more", *said[-SHOWN // 2 :]]
        for line in said:
            # Terminals know what to make of more.
            self.note(f"         {line[:110]}")
        self.note(f"       ({time.monotonic() - began:.1f} s)")
        if done.returncode not in (0, 2):
            self.stop()
            sys.exit(f"ended with {done.returncode}: {command}")
        return None

    def serve(self, command):
        """Start a server in the place of the one before, and wait until it is ready."""
        self.stop()
        began = time.monotonic()
        self.note(f"{self.at()}  $ {command}   (in another terminal)")
        log = (self.folder / "log").open("w+")
        self.server = subprocess.Popen(
            ["sh", "-c", f"exec {command}"],
            cwd=self.clone,
            env=self.environment,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
        while not self.is_ready(log.name):
            if self.server.poll() is not None or time.monotonic() - began > 60:
                sys.exit(Path(log.name).read_text())
            time.sleep(0.02)
        self.note(f"       (ready after {time.monotonic() - began:.1f} s)")

    def is_ready(self, log):
        """Tell whether the server has loaded everything."""
        try:
            with urllib.request.urlopen("http://127.0.0.1:8000/v2/health/ready", timeout=5) as answer:
                return answer.status == 200
        except OSError:
            # One without REST says it in its log alone.
            return re.search(r"\bready\b", Path(log).read_text()) is not None

    def stop(self):
        """End the server, if there is one."""
        if self.server and self.server.poll() is None:
            self.server.send_signal(signal.SIGTERM)
            self.server.wait(60)
        self.server = None


def commands(text):
    """The commands of a page: of its console blocks, and the first `make` of it."""
    for block in re.findall(r"^```console\n(.*?)^```", text, re.DOTALL | re.MULTILINE):
        for command in re.findall(r"^\$ (.*(?:(?<=\\)\n.*)*)", block, re.MULTILINE):
            yield re.sub(r"  +# .*$", "", command.replace("\\\n", " ")).strip()


def main():
    """Clone, build, and go through the pages."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--page", action="append", help="a page to go through; README.md if there is none")
    parser.add_argument("--write", type=Path, help="write the transcript to this page")
    parser.add_argument("--keep", type=Path, help="do it in this folder, and leave it there")
    given = parser.parse_args()
    folder = given.keep or Path(tempfile.mkdtemp())
    folder.mkdir(exist_ok=True)
    hour = Hour(folder)
    try:
        hour.run(f"git clone --quiet {ROOT} ovms", cwd=folder)
        hour.run("make demo")
        for page in given.page or ["README.md"]:
            hour.note(f"\n{hour.at()}  {page}")
            for command in commands((hour.clone / page).read_text()):
                hour.run(command)
        hour.stop()
        for command in REST:
            hour.run(command)
        hour.note(f"\n{hour.at()}  done")
    finally:
        hour.stop()
        if not given.keep:
            shutil.rmtree(folder, ignore_errors=True)
    if given.write:
        text = given.write.read_text() if given.write.exists() else "```text\n```\n"
        lines = "\n".join(hour.lines).replace(str(ROOT), "https://…/ovms.git")
        block = f"```text\n{lines}\n```"
        given.write.write_text(re.sub(r"```text\n.*?```", lambda _: block, text, flags=re.DOTALL))


if __name__ == "__main__":
    main()
