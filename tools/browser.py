"""A page in headless Chromium, spoken to through its debugging pipe: evaluate, move, click, drag.

No driver and no package is needed: commands of the DevTools protocol are JSON texts, each ended by
a zero byte. Time is real, so that what a page takes can be measured in it.
"""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import subprocess
import tempfile
from types import TracebackType
from typing import Any

FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-sync "
    "--disable-background-networking --disable-component-update --hide-scrollbars"
).split()


def chromium() -> str | None:
    """The browser's path, if there is one."""
    return shutil.which("chromium") or shutil.which("chromium-browser")


class Page:
    """A page shown in a browser of its own, for a ``with`` block.

    width, height: of the window, in pixels.
    """

    def __init__(self, file: pathlib.Path, *, width: int = 1280, height: int = 900) -> None:
        found = chromium()
        if found is None:
            raise FileNotFoundError("there is no chromium on the path")
        self._folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        theirs_in, self._out = os.pipe()
        self._in, theirs_out = os.pipe()
        # The browser reads commands from descriptor 3 and writes answers to 4.
        shell = f'exec "$@" 3<&{theirs_in} 4>&{theirs_out}'
        profile = f"--user-data-dir={self._folder.name}"
        size = f"--window-size={width},{height}"
        command = [found, *FLAGS, profile, size, "--remote-debugging-pipe", "about:blank"]
        self._process = subprocess.Popen(
            ["bash", "-c", shell, "bash", *command],
            pass_fds=(theirs_in, theirs_out),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(theirs_in)
        os.close(theirs_out)
        self._rest = b""
        self._number = 0
        self._session = ""
        self._file = file

    def __enter__(self) -> Page:
        targets = self.send("Target.getTargets")["targetInfos"]
        target = next(t["targetId"] for t in targets if t["type"] == "page")
        attached = self.send("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        self.send("Page.enable")
        self.send("Performance.enable", timeDomain="threadTicks")
        self.send("Page.navigate", url=f"file://{self._file.resolve()}")
        self.evaluate(
            "new Promise(done => document.readyState === 'complete' ? done() : "
            "addEventListener('load', () => done()))"
        )
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.terminate()
        self._process.wait(30)
        os.close(self._in)
        os.close(self._out)
        self._folder.cleanup()

    def evaluate(self, expression: str) -> Any:
        """The value of an expression of JavaScript; of a promise, what it gives."""
        found = self.send(
            "Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True
        )
        if "exceptionDetails" in found:
            raise RuntimeError(str(found["exceptionDetails"]))
        return found["result"].get("value")

    def metrics(self) -> dict[str, float]:
        """Counts and seconds of the page's main thread; seconds are of CPU time."""
        found = self.send("Performance.getMetrics")["metrics"]
        return {metric["name"]: metric["value"] for metric in found}

    def mouse(self, kind: str, x: float, y: float, button: str = "none") -> None:
        """A mouse event: mouseMoved, mousePressed or mouseReleased."""
        clicks = 0 if button == "none" else 1
        self.send("Input.dispatchMouseEvent", type=kind, x=x, y=y, button=button, clickCount=clicks)

    def send(self, method: str, **parameters: object) -> Any:
        """The result of a command of the protocol."""
        self._number += 1
        asked: dict[str, object] = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            asked["sessionId"] = self._session
        os.write(self._out, json.dumps(asked).encode() + b"\0")
        while True:
            answer = self._message()
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                return answer["result"]

    def _message(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            more = os.read(self._in, 1 << 20)
            if not more:
                raise RuntimeError("the browser ended")
            self._rest += more
        text, _, self._rest = self._rest.partition(b"\0")
        return dict(json.loads(text))
