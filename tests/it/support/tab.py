"""Types keys into a shell at a terminal of its own, and prints what the programs got.

tab.py SHELL ARGUMENT... -- KEYS...

The shell's prompt is `READY>`. Each KEYS is a line with tabs in it; it is ended by Enter once what
the shell shows has been read. The program that it runs says `GOT[…]END`. Everything that came goes
to stdout as one JSON list, an entry for each of KEYS.
"""

import json
import os
import pty
import select
import sys
import time

PROMPT = b"READY>"
END = b"]END"
# A shell that says nothing for so long will not.
LIMIT = 60


def read(terminal, mark, start=b""):
    """Reads until a mark is there; returns what came, and what came behind the mark."""
    got = start
    limit = time.monotonic() + LIMIT
    while mark not in got:
        left = limit - time.monotonic()
        ready, _, _ = select.select([terminal], [], [], max(0, left))
        if not ready:
            sys.exit(f"waited in vain for {mark!r} in {got!r}")
        try:
            got += os.read(terminal, 65536)
        except OSError:
            sys.exit(f"the shell has ended: {got!r}")
    head, tail = got.split(mark, 1)
    return head + mark, tail


def main():
    middle = sys.argv.index("--")
    shell, lines = sys.argv[1:middle], sys.argv[middle + 1 :]
    child, terminal = pty.fork()
    if child == 0:
        os.execvp(shell[0], shell)
    answers = []
    _, rest = read(terminal, PROMPT)
    for keys in lines:
        os.write(terminal, keys.encode() + b"\r")
        said, rest = read(terminal, END, rest)
        answers.append(said.decode(errors="replace"))
        # Only now: what comes before may be drawn again.
        _, rest = read(terminal, PROMPT, rest)
    os.close(terminal)
    print(json.dumps(answers))


main()
