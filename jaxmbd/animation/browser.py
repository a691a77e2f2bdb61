"""A browser without a window, driven by Chromium's DevTools protocol over two pipes: no server, no further package."""

import base64
import contextlib
import itertools
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "chrome-headless-shell")
_PLACES = ("/Applications/Google Chrome.app/Contents/MacOS/Google Chrome", "/Applications/Chromium.app/Contents/MacOS/Chromium")
_FLAGS = (
    "--headless=new",
    "--no-sandbox",  # containers have no user namespaces; no page but our own is opened
    "--disable-gpu",
    "--use-angle=swiftshader",
    "--enable-unsafe-swiftshader",
    "--hide-scrollbars",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-extensions",
    "--mute-audio",
    "--disable-dev-shm-usage",
    "--force-color-profile=srgb",
    "--remote-debugging-pipe",
)
# The browser's ends of the pipes have to be 3 and 4: this moves them there, and becomes the browser.
_START = "import os, sys; os.dup2(int(sys.argv[1]), 3); os.dup2(int(sys.argv[2]), 4); os.execv(sys.argv[3], sys.argv[3:])"


def find_browser() -> str | None:
    """The path of a Chromium, Chrome or their kin; the environment variable JAXMBD_BROWSER may name another."""
    named = os.environ.get("JAXMBD_BROWSER")
    for name in (named,) if named else (*_NAMES, *_PLACES):
        if path := shutil.which(name):
            return path
    return None


def require_browser() -> str:
    """The same, or an error that says what to install."""
    path = find_browser()
    if path is None or os.name != "posix":
        raise RuntimeError("no browser was found: install chromium or Google Chrome (Linux, macOS), or name one in JAXMBD_BROWSER.")
    return path


class BrowserError(RuntimeError):
    """The browser, or the page in it, did not do as it was told."""


class Browser:
    """One page of a browser, of so many pixels."""

    def __init__(self, width: int, height: int, timeout: float = 120.0):
        path = require_browser()
        self._timeout, self._numbers, self._buffer = timeout, itertools.count(1), b""
        self.errors: list[str] = []
        """what the page complained of"""
        self._close = contextlib.ExitStack()
        try:
            self._profile = self._close.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True))
            self._start(path, width, height)
            target = self._call("Target.createTarget", url="about:blank")["targetId"]
            self._session = self._call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
            for domain in ("Page", "Runtime", "Log"):
                self.call(f"{domain}.enable")
            self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        except BaseException:
            self._close.close()
            raise

    def _start(self, path: str, width: int, height: int) -> None:
        to_read, self._write = os.pipe()
        self._read, to_write = os.pipe()
        self._close.callback(os.close, self._write)
        self._close.callback(os.close, self._read)
        arguments = [path, *_FLAGS, f"--window-size={width},{height}", f"--user-data-dir={self._profile}", "about:blank"]
        home = {**os.environ, "HOME": self._profile}
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _START, str(to_read), str(to_write), *arguments],
            pass_fds=(to_read, to_write),
            env=home,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        os.close(to_read)
        os.close(to_write)
        os.set_blocking(self._read, False)
        self._close.callback(self._end)

    def _end(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def __enter__(self) -> "Browser":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        with contextlib.suppress(BrowserError, OSError):
            self._call("Browser.close")
        self._close.close()

    # --- the page ---------------------------------------------------------------------------------------------------------------------

    def open(self, path: Path) -> None:
        """A file, loaded."""
        self.call("Page.navigate", url=path.resolve().as_uri())
        deadline = time.monotonic() + self._timeout
        while self.evaluate("document.readyState + location.protocol") != "completefile:":
            if time.monotonic() > deadline:
                raise BrowserError("the browser did not load the page.")
            time.sleep(0.02)

    def evaluate(self, script: str) -> Any:
        """The value of an expression of the page, awaited if it is a promise."""
        answer = self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in answer:
            details = answer["exceptionDetails"]
            raise BrowserError(details.get("exception", {}).get("description") or details["text"])
        return answer["result"].get("value")

    def picture(self) -> bytes:
        """What the page shows, as a PNG."""
        return base64.b64decode(self.call("Page.captureScreenshot", format="png", optimizeForSpeed=True)["data"])

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """A method of the protocol, of the page's session."""
        return self._call(method, self._session, **parameters)

    # --- messages ---------------------------------------------------------------------------------------------------------------------

    def _call(self, method: str, session: str | None = None, **parameters: Any) -> dict[str, Any]:
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": parameters} | ({"sessionId": session} if session else {})
        data = json.dumps(message).encode() + b"\0"
        try:
            while data:
                data = data[os.write(self._write, data) :]
        except BrokenPipeError:
            raise BrowserError("the browser went away.") from None
        for answer in self._messages():
            if answer.get("id") == number:
                if "error" in answer:
                    raise BrowserError(f"{method}: {answer['error'].get('message')}")
                return answer.get("result", {})
            self._note(answer)
        raise BrowserError("the browser went away.")

    def _messages(self) -> Iterator[dict[str, Any]]:
        deadline = time.monotonic() + self._timeout
        while True:
            while b"\0" in self._buffer:
                message, _, self._buffer = self._buffer.partition(b"\0")
                yield json.loads(message)
            try:
                more = os.read(self._read, 1 << 20)
                if not more:
                    return
                self._buffer += more
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise BrowserError("the browser does not answer.") from None
                time.sleep(0.002)

    def _note(self, event: dict[str, Any]) -> None:
        parameters = event.get("params", {})
        if event.get("method") == "Runtime.exceptionThrown":
            details = parameters["exceptionDetails"]
            self.errors.append(details.get("exception", {}).get("description") or details["text"])
        elif event.get("method") == "Runtime.consoleAPICalled" and parameters["type"] in ("error", "assert"):
            self.errors.append(" ".join(str(part.get("value", part.get("description", ""))) for part in parameters["args"]))
        elif event.get("method") == "Log.entryAdded" and parameters["entry"]["level"] == "error":
            self.errors.append(parameters["entry"]["text"])
