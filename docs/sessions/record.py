#!/usr/bin/env python3
"""Records the terminal sessions that the README shows, as SVG files beside this one.

    record.py PROGRAM [NAME…]

Each session is a few commands in a terminal of its own, run from the top of the tree with PROGRAM as `ovms`; what
stands on its screen at the end is drawn. Nothing in the files comes from elsewhere, fonts included.
"""

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time
from pathlib import Path

import pyte
from rich.console import Console
from rich.style import Style
from rich.terminal_theme import MONOKAI
from rich.text import Text

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
COLUMNS, ROWS = 100, 400
LIMIT = 300.0

# Name, title, the server's arguments if it needs one, and the commands.
SESSIONS = {
    "infer": (
        "a request by hand",
        ["--demo"],
        [
            "ovms infer classifier -i @fixtures/images/star.png --top 3 --labels fixtures/models/classifier/labels.txt",
            "ovms infer classifier --random --duration 2s --concurrency 4",
        ],
    ),
    "ocr": ("reading a page", None, ["examples/ocr/run"]),
    # Behind the one that compiles its custom node.
    "pipeline": (
        "a pipeline, drawn",
        None,
        ["ovms pipeline show fixtures/pipelines/ocr/config.json"],
    ),
    "shapes": ("shapes on a table", None, ["examples/shapes/run"]),
    "voice": ("speech in a recording", None, ["examples/voice/run"]),
    "streaming": ("a text graph that writes", None, ["examples/streaming/run"]),
}


def in_terminal(command, environment):
    """Runs a command in a terminal, and returns its screen at the end."""
    screen = pyte.Screen(COLUMNS, ROWS)
    stream = pyte.ByteStream(screen)
    process, terminal = pty.fork()
    if process == 0:
        os.chdir(ROOT)
        os.execvpe("sh", ["sh", "-c", command], environment)
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    end = time.monotonic() + LIMIT
    while time.monotonic() < end:
        if not select.select([terminal], [], [], 1.0)[0]:
            continue
        try:
            seen = os.read(terminal, 1 << 16)
        except OSError:
            break
        if not seen:
            break
        stream.feed(seen)
    else:
        os.kill(process, signal.SIGKILL)
    _, status = os.waitpid(process, 0)
    if status != 0:
        sys.exit(f"`{command}` ended with {os.waitstatus_to_exitcode(status)}:\n" + "\n".join(screen.display).rstrip())
    return screen


def color(name):
    """A color of the emulator as the drawing library calls it."""
    if name == "default":
        return None
    if re.fullmatch(r"[0-9a-f]{6}", name):
        return f"#{name}"
    name = {"brown": "yellow", "brightbrown": "brightyellow"}.get(name, name)
    return name.replace("bright", "bright_", 1)


def text_of(screen):
    """What stands on a screen, with its colors and without the rows below the last one."""
    rows = []
    for number in range(ROWS):
        row = Text()
        cells = [screen.buffer[number][column] for column in range(COLUMNS)]
        while cells and cells[-1].data == " " and cells[-1].bg == "default":
            cells.pop()
        for cell in cells:
            style = Style(
                color=color(cell.fg), bgcolor=color(cell.bg), bold=cell.bold, italic=cell.italics, reverse=cell.reverse
            )
            row.append(cell.data, style)
        rows.append(row)
    while rows and not rows[-1].plain:
        rows.pop()
    return Text("\n").join(rows)


def draw(name, title, parts):
    """Writes the file of a session."""
    console = Console(record=True, width=COLUMNS, file=open(os.devnull, "w"), force_terminal=True, color_system="truecolor")
    for command, text in parts:
        console.print(Text.assemble(("$ ", "bold green"), (command, "bold")))
        console.print(text)
    svg = console.export_svg(title=title, theme=MONOKAI, unique_id=name)
    svg = re.sub(r"@font-face \{.*?\}", "", svg, flags=re.DOTALL)
    svg = re.sub(r"\s*<!-- .*? -->", "", svg).replace("Fira Code, monospace", '"DejaVu Sans Mono", Menlo, Consolas, monospace')
    (HERE / f"{name}.svg").write_text("\n".join(line.rstrip() for line in svg.splitlines() if line.strip()) + "\n")


def main():
    program, *names = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "ovms").symlink_to(Path(program).resolve())
        environment = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}", "TERM": "xterm-256color", "LANG": "C.UTF-8"}
        for name in names or SESSIONS:
            title, serving, commands = SESSIONS[name]
            server = serving and start(environment, serving)
            try:
                parts = [(command, text_of(in_terminal(command, environment))) for command in commands]
            finally:
                if server:
                    server.terminate()
                    server.wait(timeout=30)
            draw(name, title, parts)
            print(f"docs/sessions/{name}.svg")


def start(environment, arguments):
    """Starts a server on the ports that `ovms infer` asks by itself, and waits until it is ready."""
    server = subprocess.Popen(
        ["ovms", "serve", *arguments], env=environment, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    for line in server.stdout:
        if line.endswith(" ready\n"):
            return server
    sys.exit("the server does not start")


if __name__ == "__main__":
    main()
