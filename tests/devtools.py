"""A real browser that a test drives through the DevTools protocol: keys, clicks, scripts, screenshots."""

from __future__ import annotations

import asyncio
import base64
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import aiohttp

from tests.browser import FLAGS, browser

PATIENCE = 30  # seconds
VIRTUAL_KEYS = {"Enter": 13, "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40, " ": 32}


class Page:
    """One page of the browser."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        session: aiohttp.ClientSession,
        socket: aiohttp.ClientWebSocketResponse,
    ) -> None:
        self.loop, self.session, self.socket, self.calls = loop, session, socket, 0
        self.violations: list[str] = []  # messages of the console, errors and violations of the policy

    async def close(self) -> None:
        await self.socket.close()
        await self.session.close()

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        return self.loop.run_until_complete(asyncio.wait_for(self._call(method, parameters), PATIENCE))

    async def _call(self, method: str, parameters: dict[str, Any]) -> dict[str, Any]:
        self.calls += 1
        await self.socket.send_json({"id": self.calls, "method": method, "params": parameters})
        while True:
            reply = await self.socket.receive_json()
            if reply.get("method") in ("Log.entryAdded", "Runtime.exceptionThrown"):
                self.violations.append(str(reply["params"]))
            if reply.get("id") == self.calls:
                assert "error" not in reply, reply
                return reply["result"]

    def open(self, address: str) -> None:
        """Open an address as a fresh page, even if only its fragment differs."""
        for page in ("about:blank", address):
            self.call("Page.navigate", url=page)
            self.until(f"location.href.startsWith({page!r}) && document.readyState === 'complete'")

    def script(self, expression: str) -> Any:
        """The value of an expression on the page."""
        done = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in done, done
        return done["result"].get("value")

    def until(self, expression: str) -> Any:
        """Wait for an expression to become true."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            if value := self.script(expression):
                return value
            time.sleep(0.05)
        raise AssertionError(f"{expression} did not become true\n{self.text}\n{self.violations}")

    @property
    def text(self) -> str:
        """What a reader sees."""
        return str(self.script("document.body.innerText"))

    def press(self, key: str) -> None:
        """Press and release a key."""
        code = VIRTUAL_KEYS.get(key, ord(key.upper()[0]))
        typed = {"text": "\r" if key == "Enter" else key} if len(key) == 1 or key == "Enter" else {}
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, windowsVirtualKeyCode=code, **typed)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key, windowsVirtualKeyCode=code)

    def click(self, selector: str) -> None:
        """Click in the middle of an element, wherever it is."""
        self.script(f"document.querySelector({selector!r}).scrollIntoView({{block: 'center'}})")
        x, y = self.script(
            f"(() => {{ const box = document.querySelector({selector!r}).getBoundingClientRect();"
            "return [box.x + box.width / 2, box.y + box.height / 2]; })()"
        )
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def look(self, file: Path, *, width: int = 1000, height: int = 900, dark: bool = False) -> None:
        """Take a screenshot; widths below 500 are those of a phone."""
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 500
        )
        scheme = "dark" if dark else "light"
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        shot = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True)
        file.write_bytes(base64.b64decode(shot["data"]))


@contextmanager
def browsing(profile: Path) -> Iterator[Page]:
    """A browser with a profile of its own, and its page."""
    profile.mkdir(parents=True)
    loop = asyncio.new_event_loop()
    with subprocess.Popen(
        [browser(), *FLAGS, "--remote-debugging-port=0", f"--user-data-dir={profile}", "about:blank"],
        stderr=subprocess.DEVNULL,
    ) as process:
        page = None
        try:
            page = loop.run_until_complete(_connected(loop, profile))
            for domain in ("Page", "Runtime", "Log"):
                page.call(f"{domain}.enable")
            yield page
        finally:
            if page is not None:
                loop.run_until_complete(page.close())
            process.kill()
            loop.close()


async def _connected(loop: asyncio.AbstractEventLoop, profile: Path) -> Page:
    port = profile / "DevToolsActivePort"
    end = time.monotonic() + PATIENCE
    while not (port.exists() and "\n" in port.read_text()):
        assert time.monotonic() < end, "the browser did not start"
        await asyncio.sleep(0.05)
    session = aiohttp.ClientSession()
    async with session.get(f"http://127.0.0.1:{port.read_text().splitlines()[0]}/json/list") as reply:
        targets = await reply.json()
    address = next(target["webSocketDebuggerUrl"] for target in targets if target["type"] == "page")
    return Page(loop, session, await session.ws_connect(address, max_msg_size=0))
