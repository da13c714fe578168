"""Chromium, controlled over its DevTools protocol, for the dashboard's tests.

One process serves all tests; every test has a browsing context of its own. Errors in the page's console and uncaught
exceptions are collected in `Tab.errors`.
"""

import asyncio
import itertools
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import aiohttp

#: Names of the executable in common packages.
NAMES: Final = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
START_SECONDS: Final = 30.0
#: Long enough for a machine that runs other tests.
TIMEOUT_SECONDS: Final = 15.0
POLL_INTERVAL_SECONDS: Final = 0.03

#: Messages of the browser about a stopped server: tests stop servers, and pages retry.
UNREACHED: Final = ("ERR_CONNECTION_REFUSED", "ERR_CONNECTION_RESET", "ERR_EMPTY_RESPONSE")

LAPTOP: Final = (1366, 768)


def installed() -> str | None:
    """The Chromium to use: $MOORING_CHROMIUM, or the one on the PATH."""
    return os.environ.get("MOORING_CHROMIUM") or next((path for name in NAMES if (path := shutil.which(name))), None)


class Chromium:
    """The process."""

    def __init__(self, program: str) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="mooring-chromium-", ignore_cleanup_errors=True)
        # The sandbox does not work as root, and CI runs as root.
        sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []
        quiet = ["--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--disable-background-networking"]
        self._process = subprocess.Popen(
            [
                program,
                "--headless=new",
                *sandbox,
                *quiet,
                "--disable-features=Translate,MediaRouter,OptimizationHints",
                "--remote-debugging-port=0",
                f"--user-data-dir={self._folder.name}",
                "about:blank",
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    async def endpoint(self) -> str:
        file = Path(self._folder.name) / "DevToolsActivePort"
        async with asyncio.timeout(START_SECONDS):
            while True:
                lines = file.read_text().split() if file.exists() else []
                if len(lines) == 2:
                    return f"ws://127.0.0.1:{lines[0]}{lines[1]}"
                assert self._process.poll() is None, "Chromium ended at once"
                await asyncio.sleep(POLL_INTERVAL_SECONDS)

    def close(self) -> None:
        self._process.terminate()
        self._process.wait(10)
        self._folder.cleanup()


class Browser:
    """A connection to the process, with tabs in its own browsing context."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._numbers = itertools.count(1)
        self._responses: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._tabs: dict[str, Tab] = {}
        self._context = ""

    async def call(self, method: str, session: str = "", **params: object) -> dict[str, Any]:
        number = next(self._numbers)
        response: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._responses[number] = response
        body = {"id": number, "method": method, "params": params} | ({"sessionId": session} if session else {})
        await self._socket.send_str(json.dumps(body))
        async with asyncio.timeout(TIMEOUT_SECONDS):
            return await response

    async def tab(self, address: str = "", *, dark: bool = False, size: tuple[int, int] = LAPTOP) -> "Tab":
        if not self._context:
            self._context = (await self.call("Target.createBrowserContext"))["browserContextId"]
        made = await self.call("Target.createTarget", url="about:blank", browserContextId=self._context)
        attached = await self.call("Target.attachToTarget", targetId=made["targetId"], flatten=True)
        tab = self._tabs[attached["sessionId"]] = Tab(self, attached["sessionId"])
        for domain in ("Page", "Runtime", "Log"):
            await tab.call(f"{domain}.enable")
        width, height = size
        await tab.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        await tab.call("Emulation.setEmulatedMedia", features=[scheme])
        if address:
            await tab.open(address)
        return tab

    async def downloads(self, folder: Path) -> None:
        """Save what tabs download into a folder."""
        where = {"downloadPath": str(folder), "browserContextId": self._context}
        await self.call("Browser.setDownloadBehavior", behavior="allow", **where)

    async def downloaded(self, file: Path) -> str:
        """The text of a file, once it is there."""
        async with asyncio.timeout(TIMEOUT_SECONDS):
            while not await asyncio.to_thread(file.exists):  # noqa: ASYNC110  # a browser sets no event of ours
                await asyncio.sleep(POLL_INTERVAL_SECONDS)
        return await asyncio.to_thread(file.read_text)

    @property
    def complaints(self) -> list[str]:
        """All errors of all tabs."""
        return [error for tab in self._tabs.values() for error in tab.errors]

    async def listen(self) -> None:
        async for message in self._socket:
            received = json.loads(message.data)
            if (number := received.get("id")) is not None:
                response = self._responses.pop(number)
                if not response.done():
                    response.set_result(received.get("result", {"error": received.get("error")}))
            elif (tab := self._tabs.get(received.get("sessionId", ""))) is not None:
                tab.on_event(received["method"], received["params"])

    async def close(self) -> None:
        if self._context:
            await self.call("Target.disposeBrowserContext", browserContextId=self._context)


class Tab:
    def __init__(self, browser: Browser, session: str) -> None:
        self._browser = browser
        self._session = session
        self.errors: list[str] = []

    async def call(self, method: str, **params: object) -> dict[str, Any]:
        return await self._browser.call(method, self._session, **params)

    def on_event(self, method: str, params: dict[str, Any]) -> None:
        if method == "Runtime.exceptionThrown":
            self.errors.append(str(params["exceptionDetails"]))
        elif method == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning", "assert"):
            self.errors.append(str(params["args"]))
        elif method == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            entry = params["entry"]
            if entry["source"] != "network" or not entry["text"].endswith(UNREACHED):
                self.errors.append(f"{entry['source']}: {entry['text']}")

    async def open(self, address: str) -> None:
        # An address that differs in its fragment alone would not be reloaded.
        await self.call("Page.navigate", url="about:blank")
        await self.call("Page.navigate", url=address)

    async def run(self, expression: str) -> object:
        """The value of an expression; promises are awaited."""
        done = await self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in done, done
        return done["result"].get("value")

    async def text(self, selector: str) -> str:
        found = await self.run(f"document.querySelector({json.dumps(selector)})?.innerText ?? ''")
        assert isinstance(found, str)
        return found

    async def until(self, expression: str) -> None:
        """Wait until a JavaScript expression is truthy."""
        try:
            async with asyncio.timeout(TIMEOUT_SECONDS):
                while not await self.run(f"Boolean({expression})"):  # noqa: ASYNC110  # a browser sets no event of ours
                    await asyncio.sleep(POLL_INTERVAL_SECONDS)
        except TimeoutError:
            body = await self.run("document.body.innerText")
            raise AssertionError(f"never became true: {expression}\n{body}\n{self.errors}") from None

    async def shows(self, selector: str, text: str) -> None:
        """Wait until an element contains a text."""
        await self.until(
            f"(document.querySelector({json.dumps(selector)})?.innerText ?? '').includes({json.dumps(text)})"
        )

    async def click(self, selector: str) -> None:
        """Click the middle of the element."""
        await self.until(f"document.querySelector({json.dumps(selector)}) !== null")
        middle = await self.run(
            f"(() => {{ const e = document.querySelector({json.dumps(selector)});"
            " e.scrollIntoView({block: 'nearest'}); const r = e.getBoundingClientRect();"
            " return {x: r.x + r.width / 2, y: r.y + r.height / 2}; })()"
        )
        assert isinstance(middle, dict)
        for kind in ("mousePressed", "mouseReleased"):
            await self.call("Input.dispatchMouseEvent", type=kind, button="left", clickCount=1, **middle)

    async def press(self, *keys: str) -> None:
        for key in keys:
            text = {"Enter": "\r"}.get(key, key if len(key) == 1 else "")
            code = {"Tab": 9, "Enter": 13, "Escape": 27}.get(key, 0)
            event = {"key": key, "windowsVirtualKeyCode": code} | ({"text": text} if text else {})
            await self.call("Input.dispatchKeyEvent", type="keyDown" if text else "rawKeyDown", **event)
            await self.call("Input.dispatchKeyEvent", type="keyUp", key=key)


@asynccontextmanager
async def connected(chromium: Chromium) -> AsyncIterator[Browser]:
    async with (
        aiohttp.ClientSession() as session,
        session.ws_connect(await chromium.endpoint(), max_msg_size=0) as socket,
    ):
        browser = Browser(socket)
        listening = asyncio.create_task(browser.listen())
        try:
            yield browser
            await browser.close()
        finally:
            listening.cancel()
