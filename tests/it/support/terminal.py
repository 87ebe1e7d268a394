"""Runs a program at a terminal of its own, and prints what stands there at the end.

terminal.py COLUMNS STEPS PROGRAM ARGUMENT...

STEPS is a JSON list of pairs: a text to wait for, and the keys that are typed then; keys that are null
close the terminal. What comes back is one JSON object: the exit code, the lines of the screen, which
of them the terminal has broken because they were too long, and what was written in colour.
"""

import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import sys
import termios
import time

# The seconds that a program may take.
LIMIT = 60


class Screen:
    """As much of a terminal as programs use that draw bars and tables. It never scrolls."""

    SEQUENCE = re.compile(r"\x1b\[([?0-9;]*)([A-Za-z])|\x1b.|[\x00-\x1f]|[^\x00-\x1f]")

    def __init__(self, columns):
        self.columns = columns
        self.lines = [[]]
        self.row = self.column = 0
        self.broken = set()
        # Texts in colour, in the order in which they were written.
        self.coloured = []
        self.has_colour = False

    def feed(self, text):
        for found in self.SEQUENCE.finditer(text):
            if found[2]:
                self.control(found[1], found[2])
            elif found[0] == "\r":
                self.column = 0
            elif found[0] == "\n":
                self.down()
            elif found[0] >= " ":
                self.put(found[0])

    def down(self):
        self.row += 1
        while len(self.lines) <= self.row:
            self.lines.append([])

    def put(self, character):
        # Only what follows the last column goes to the next line.
        if self.column == self.columns:
            self.broken.add(self.row)
            self.column = 0
            self.down()
        line = self.lines[self.row]
        line.extend(" " * (self.column + 1 - len(line)))
        line[self.column] = character
        self.column += 1
        if self.has_colour:
            self.coloured[-1] += character

    def control(self, number, name):
        count = int(number) if number.isdigit() else 0
        if name == "A":
            self.row = max(0, self.row - max(1, count))
        elif name == "B":
            for _ in range(max(1, count)):
                self.down()
        elif name == "C":
            self.column = min(self.columns - 1, self.column + max(1, count))
        elif name == "D":
            self.column = max(0, self.column - max(1, count))
        elif name == "m":
            self.has_colour = number not in ("", "0")
            if self.has_colour:
                self.coloured.append("")
        elif name == "K":
            line = self.lines[self.row]
            if count == 0:
                del line[self.column :]
            else:
                end = len(line) if count == 2 else self.column + 1
                line[:end] = " " * end
        elif name == "J":
            del self.lines[self.row + 1 :]
            del self.lines[self.row][self.column :]

    def shown(self):
        return ["".join(line).rstrip() for line in self.lines]


def main():
    columns, steps, program = int(sys.argv[1]), json.loads(sys.argv[2]), sys.argv[3:]
    child, terminal = pty.fork()
    if child == 0:
        # Whoever runs the tests may ignore it.
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
        fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        os.execvp(program[0], program)
    got, seen = b"", 0
    limit = time.monotonic() + LIMIT
    is_open = True
    while is_open:
        while steps and steps[0][0].encode() in got[seen:]:
            text, keys = steps.pop(0)
            seen = got.index(text.encode(), seen) + len(text.encode())
            if keys is None:
                is_open = False
                break
            os.write(terminal, keys.encode())
        else:
            ready, _, _ = select.select([terminal], [], [], max(0, limit - time.monotonic()))
            if not ready:
                sys.exit(f"waited in vain for {steps} in {got!r}")
            try:
                got += os.read(terminal, 65536)
            except OSError:
                is_open = False
    os.close(terminal)
    if any(keys is not None for _, keys in steps):
        sys.exit(f"it has ended before {steps}: {got!r}")
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    screen = Screen(columns)
    screen.feed(got.decode(errors="replace"))
    broken = sorted(screen.broken)
    shown = {"lines": screen.shown(), "broken": broken, "coloured": screen.coloured}
    print(json.dumps({"code": code, **shown}))


main()
