"""Chromium without a window, over its DevTools protocol.

Messages go through two pipes, so that this needs neither a port nor a package.
"""

import base64
import fcntl
import json
import os
import select
import shutil
import subprocess
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# The places that Chromium has for the pipes.
FROM_US, TO_US = 3, 4
LIMIT = 180.0


def find():
    """The program, if there is one."""
    for name in ("chromium", "chromium-browser", "google-chrome"):
        if found := shutil.which(name):
            return found
    ours = ROOT / "target/tools/bin/chromium"
    return str(ours) if ours.exists() else None


class Browser:
    """A browser with pages, each of them a session of the protocol."""

    def __init__(self, folder, *flags):
        ours_out, ours_in = self._start(folder, flags)
        self._out, self._in = ours_out, ours_in
        self._buffer, self._count = b"", 0
        self.events = []

    def _start(self, folder, flags):
        # Out of the way of the places that the pipes are to have.
        pipes = [fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10) for end in (*os.pipe(), *os.pipe())]
        theirs_in, ours_out, ours_in, theirs_out = pipes

        def place():
            os.dup2(theirs_in, FROM_US)
            os.dup2(theirs_out, TO_US)

        command = [find(), "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
        command += ["--remote-debugging-pipe", "--no-first-run", "--disable-background-networking"]
        command += ["--disable-component-update", "--disable-sync", "--hide-scrollbars"]
        command += ["--force-color-profile=srgb", f"--user-data-dir={folder}/profile"]
        command += [*flags, "about:blank"]
        log = Path(folder, "log").open("wb")
        self.process = subprocess.Popen(
            command, stdout=log, stderr=log, preexec_fn=place, pass_fds=(FROM_US, TO_US)
        )
        os.close(theirs_in)
        os.close(theirs_out)
        return ours_out, ours_in

    def close(self):
        """End the browser."""
        self.process.terminate()
        self.process.wait(timeout=20)
        os.close(self._out)
        os.close(self._in)

    def call(self, method, session=None, **parameters):
        """Call a method, and wait for its answer."""
        self._count += 1
        message = {"id": self._count, "method": method, "params": parameters}
        if session:
            message["sessionId"] = session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        end = time.monotonic() + LIMIT
        while True:
            answer = self._read(end - time.monotonic())
            assert answer is not None, f"no answer to {method}"
            if answer.get("id") == self._count:
                error = answer.get("error", {})
                if "navigated" in error.get("message", ""):
                    raise NavigatedError(f"{method}: {error}")
                assert not error, f"{method}: {error}"
                return answer["result"]

    def _read(self, limit):
        """The next message, if one comes in time. Events are kept."""
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._in], [], [], max(limit, 0))
            if not ready:
                return None
            piece = os.read(self._in, 1 << 20)
            assert piece, "the browser has ended"
            self._buffer += piece
        message, self._buffer = self._buffer.split(b"\0", 1)
        message = json.loads(message)
        if "id" not in message:
            self.events.append(message)
        return message

    def page(self, width, height, *, dark=False, scripts=True):
        """A new page."""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        page = Page(self, target, session)
        for domain in ("Page", "Runtime", "Log", "Network"):
            page.call(f"{domain}.enable")
        page.call("Emulation.setFocusEmulationEnabled", enabled=True)
        page.call("Emulation.setScriptExecutionDisabled", value=not scripts)
        media = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        page.call("Emulation.setEmulatedMedia", features=media)
        page.size(width, height)
        return page


class NavigatedError(Exception):
    """The page went to another address meanwhile."""


class Page:
    """A page of the browser."""

    def __init__(self, browser, target, session):
        self.browser, self.target, self.session = browser, target, session

    def call(self, method, **parameters):
        """Call a method of the page."""
        return self.browser.call(method, self.session, **parameters)

    def size(self, width, height):
        """Make the page as large as a window or screen; a narrow one is that of a phone."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 600,
        )

    def open(self, url):
        """Load an address."""
        assert "errorText" not in self.call("Page.navigate", url=url), url
        self.until("document.readyState === 'complete'", "the page loads")

    def ask(self, expression):
        """The value of an expression of JavaScript."""
        answer = self.call(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in answer, f"{expression}: {answer['exceptionDetails']}"
        return answer["result"].get("value")

    def until(self, expression, what):
        """Wait for an expression to hold, and return its value."""
        end = time.monotonic() + LIMIT
        while True:
            try:
                if value := self.ask(expression):
                    return value
            except NavigatedError:
                pass  # The next page is asked.
            assert time.monotonic() < end, f"waited in vain: {what} ({expression})"
            time.sleep(0.05)

    def choose(self, selector, *files):
        """Choose files in a field, as somebody does in the dialogue."""
        answer = self.call("Runtime.evaluate", expression=f"document.querySelector({selector!r})")
        self.call(
            "DOM.setFileInputFiles",
            objectId=answer["result"]["objectId"],
            files=[str(file) for file in files],
        )

    def screenshot(self, path, *, whole=True):
        """Save what the page looks like."""
        answer = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        Path(path).write_bytes(base64.b64decode(answer["data"]))

    def events(self, *methods):
        """What has happened on the page so far, of some kinds."""
        self.ask("0")
        own = (event for event in self.browser.events if event.get("sessionId") == self.session)
        return [event for event in own if event["method"] in methods]

    def errors(self):
        """What the console has of errors and warnings."""
        errors = []
        for event in self.events(
            "Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded"
        ):
            kind, params = event["method"], event["params"]
            if kind == "Runtime.exceptionThrown":
                errors.append(json.dumps(params["exceptionDetails"]))
            elif kind == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning"):
                errors.append(json.dumps(params["args"]))
            elif kind == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
                errors.append(f"{params['entry']['text']} {params['entry'].get('url', '')}")
        return errors

    def requests(self):
        """The addresses that the page has asked for."""
        sent = self.events("Network.requestWillBeSent")
        return [event["params"]["request"]["url"] for event in sent]
