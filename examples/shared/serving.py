"""Starts `ovms serve` for an example, asks it with `ovms infer`, and ends it whatever happens."""

import contextlib
import itertools
import json
import os
import pathlib
import random
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

import terminal

ROOT = pathlib.Path(__file__).resolve().parents[2]

# How long models may take to load, in seconds, and the server to stop.
LOADING = 120
STOPPING = 30

# Where ports of an example are.
PORTS = range(10_000, 12_000)


def refuse(text, hint, code=1):
    """Ends the example with an error in the words of `ovms`."""
    print(f"error: {text}\nhint: {hint}", file=sys.stderr)
    sys.exit(code)


def program():
    """Finds `ovms`: the installed one, or what was built here."""
    built = (ROOT / "target" / kind / "ovms" for kind in ("release", "demo", "debug"))
    found = shutil.which("ovms") or next((path for path in built if path.is_file()), None)
    if not found:
        refuse(
            "there is no `ovms` in PATH, and none has been built here",
            f"run `make demo` in {ROOT}, and then `target/demo/ovms setup`",
        )
    return str(found)


def free_ports(count):
    """Ports that nobody listens on, for gRPC and REST.

    The system gives none of these to an outgoing connection before the server listens.
    """
    return list(itertools.islice(filter(is_free, random.sample(PORTS, len(PORTS))), count))


def is_free(port):
    """Tells whether a server may listen on a port."""
    with socket.socket() as it:
        try:
            it.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


def shown(path):
    """A path as one would type it here."""
    near = os.path.relpath(path)
    # A server takes no path that goes up.
    return str(path) if near.startswith("..") else near


def tell(*words, stdin=None):
    """Shows a command as it could be typed, on stderr; what the example prints is on stdout."""
    line, lines = "$" if stdin is None else f"$ {stdin} |", []
    for word in map(shlex.quote, map(str, words)):
        if len(line) + len(word) > terminal.WIDTH - 4:
            lines.append(line + " \\")
            line = "     "
        line += " " + word
    terminal.note("\n".join([*lines, line]))


class Server:
    """A server that is ready."""

    def __init__(self, ovms, port):
        self.ovms = ovms
        self.url = f"127.0.0.1:{port}"

    def infer(self, name, *args, echo=True):
        """Runs `ovms infer` and returns its answer."""
        command = ["infer", name, "--url", self.url, *map(str, args)]
        if echo:
            tell("ovms", *command)
        run = subprocess.run(
            [self.ovms, *command, "--output", "json"], capture_output=True, text=True, check=False
        )
        if run.returncode != 0:
            sys.stderr.write(run.stderr)
            sys.exit(run.returncode)
        return json.loads(run.stdout)

    def answers(self, name, *args, requests=None, stdin=None):
        """Runs `ovms infer` and returns its answers one by one, each as soon as it is there.

        `requests` are sent to its standard input, a line of JSON each; `stdin` is how that is shown.
        """
        command = ["infer", name, "--url", self.url, *map(str, args)]
        tell("ovms", *command, stdin=stdin)
        return self.lines(command, requests)

    def lines(self, command, requests):
        """What a command prints, line by line."""
        # Its errors are kept for the end: on a terminal it would draw bars over what we draw.
        errors = tempfile.TemporaryFile("w+")
        process = subprocess.Popen(
            [self.ovms, *command, "--output", "json"],
            stdin=subprocess.DEVNULL if requests is None else subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )

        def feed():
            # If nobody reads any more, the exit code says why.
            with contextlib.suppress(BrokenPipeError), process.stdin as pipe:
                for request in requests:
                    pipe.write(json.dumps(request) + "\n")
                    pipe.flush()

        try:
            if requests is not None:
                threading.Thread(target=feed, daemon=True).start()
            for line in process.stdout:
                yield json.loads(line)
            if process.wait() != 0:
                errors.seek(0)
                sys.stderr.write(errors.read())
                sys.exit(process.returncode)
        finally:
            process.terminate()
            process.wait()
            errors.close()


def is_ready(port, what):
    """Asks the server whether it, or a model, is ready."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/v2/{what}/ready", timeout=5) as answer:
            return answer.status == 200
    except OSError:
        return False


def wait_until_ready(process, port, name):
    """Asks until the server says that it has loaded what there is; tells whether that serves."""
    end = time.monotonic() + LOADING
    while process.poll() is None and time.monotonic() < end:
        if is_ready(port, "health"):
            return is_ready(port, f"models/{name}")
        time.sleep(0.05)
    return False


@contextlib.contextmanager
def server(name, *flags):
    """Serves for as long as the block runs, on ports of its own that nobody else reaches.

    It has begun when the model, pipeline or graph of that name can be asked.
    """
    ovms = program()
    port, rest_port = free_ports(2)
    command = ["serve", *map(str, flags), "--port", str(port), "--rest-port", str(rest_port)]
    tell("ovms", *command)
    here = ["--grpc-bind-address", "127.0.0.1", "--rest-bind-address", "127.0.0.1"]
    with tempfile.TemporaryFile("w+") as log:
        # A group of its own: Ctrl-C is for the example, which then stops the server.
        process = subprocess.Popen(
            [ovms, *command, *here],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
        try:
            if not wait_until_ready(process, rest_port, name):
                log.seek(0)
                sys.stderr.write(log.read())
                # Else the server has ended, and its last lines say why.
                if process.poll() is None:
                    refuse(f"the server does not serve `{name}`", "the lines above are its log")
                sys.exit(process.returncode or 1)
            yield Server(ovms, port)
        finally:
            process.terminate()
            try:
                process.wait(STOPPING)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def main(example):
    """Runs an example; Ctrl-C and SIGTERM end it with the server stopped."""

    def ended(_number, _frame):
        sys.exit(128 + signal.SIGTERM)

    signal.signal(signal.SIGTERM, ended)
    # What a shell starts in the background ignores it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        example()
    except KeyboardInterrupt:
        terminal.restore()
        sys.exit(130)
    except BrokenPipeError:
        # Whoever read the output has gone: a quiet end, also when Python closes stdout.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
