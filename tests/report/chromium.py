"""A real browser for tests: headless Chromium, spoken to through its debugging "
"pipe, so that nothing but the standard library is needed."""

import base64
import fcntl
import itertools
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

BINARY = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
QUIET = [
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-default-apps",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
]


class Browser:
    """One tab. What goes wrong in its page (exceptions, console errors, refused or attempted requests) is kept in `problems`."""

    def __init__(self):
        self.profile = tempfile.mkdtemp(prefix="harmix-chromium-")
        # Chromium reads commands from its descriptor 3 and answers on 4.
        read_commands, self.commands = os.pipe()
        self.answers, write_answers = os.pipe()
        # A Python of its own puts them there: a fork of this process, with JAX in it, might hang.
        ends = [fcntl.fcntl(fd, fcntl.F_DUPFD, 10) for fd in (read_commands, write_answers)]
        wire = f"import os, sys; os.dup2({ends[0]}, 3); os.dup2({ends[1]}, 4); os.execv(sys.argv[1], sys.argv[1:])"
        self.process = subprocess.Popen(
            [sys.executable, "-S", "-c", wire, BINARY, *QUIET, f"--user-data-dir={self.profile}", "about:blank"],
            pass_fds=ends,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for fd in (read_commands, write_answers, *ends):
            os.close(fd)
        self.buffer, self.numbers = b"", itertools.count(1)
        self.problems, self.requests, self.session = [], [], None
        target = next(t for t in self.send("Target.getTargets")["targetInfos"] if t["type"] == "page")
        self.session = self.send("Target.attachToTarget", targetId=target["targetId"], flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.send(f"{domain}.enable")

    def __enter__(self):
        return self

    def __exit__(self, *error):
        os.close(self.commands)  # which ends it
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        os.close(self.answers)
        shutil.rmtree(self.profile, ignore_errors=True)

    def send(self, method, **parameters):
        number = next(self.numbers)
        message = {"id": number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.commands, json.dumps(message).encode() + b"\0")
        while True:
            answer = self.receive()
            if answer.get("id") == number:
                assert "error" not in answer, (method, answer["error"])
                return answer["result"]

    def receive(self, seconds=60):
        end = time.monotonic() + seconds
        while b"\0" not in self.buffer:
            ready, _, _ = select.select([self.answers], [], [], max(0, end - time.monotonic()))
            assert ready, "Chromium does not answer"
            part = os.read(self.answers, 1 << 20)
            assert part, "Chromium has ended"
            self.buffer += part
        message, self.buffer = self.buffer.split(b"\0", 1)
        message = json.loads(message)
        self.note(message.get("method"), message.get("params", {}))
        return message

    def note(self, method, event):
        if method == "Runtime.exceptionThrown":
            self.problems.append(event["exceptionDetails"].get("exception", {}).get("description", str(event)))
        elif method == "Runtime.consoleAPICalled" and event["type"] in ("error", "warning", "assert"):
            self.problems.append(str(event["args"]))
        elif method == "Log.entryAdded" and event["entry"]["level"] in ("error", "warning"):
            self.problems.append(event["entry"]["text"])
        elif method == "Network.requestWillBeSent":
            self.requests.append(event["request"]["url"])

    def open(self, path, width=1280, height=900, mobile=False):
        self.send("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=mobile)
        self.send("Page.navigate", url=Path(path).resolve().as_uri())
        end = time.monotonic() + 60
        while self.evaluate("document.readyState") != "complete" or self.evaluate("location.protocol") != "file:":
            assert time.monotonic() < end, "the page does not load"
            time.sleep(0.05)

    def evaluate(self, code):
        result = self.send("Runtime.evaluate", expression=code, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in result, result["exceptionDetails"]
        return result["result"].get("value")

    def mouse(self, kind, x, y, button="none", **more):
        self.send(
            "Input.dispatchMouseEvent", type=kind, x=x, y=y, button=button, clickCount=1 if button == "left" else 0, **more
        )

    def drag(self, start, stop):
        self.mouse("mousePressed", *start, "left")
        for part in (0.3, 0.6, 1.0):
            self.mouse("mouseMoved", *(a + part * (b - a) for a, b in zip(start, stop, strict=True)), "left", buttons=1)
        self.mouse("mouseReleased", *stop, "left")

    def screenshot(self, path, full=True):
        data = self.send("Page.captureScreenshot", format="png", captureBeyondViewport=full)["data"]
        Path(path).write_bytes(base64.b64decode(data))

    def print(self, path):
        data = self.send("Page.printToPDF", printBackground=True, preferCSSPageSize=True)["data"]
        Path(path).write_bytes(base64.b64decode(data))
