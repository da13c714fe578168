"""An API server in front of another one: it serves VolumeSnapshotContents, as with their CRD, and forwards the rest.

For processes under test: `serving_snapshots` starts it in a thread and writes a kubeconfig for it.
"""

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

import aiohttp
from aiohttp import web

from mooring.client.access import Access
from mooring.client.kubeconfig import from_files
from mooring.provisioner.capacity.volume_changes import SNAPSHOT_CONTENT

PATH: Final = f"/apis/{SNAPSHOT_CONTENT.api_version}/{SNAPSHOT_CONTENT.plural}"
#: Headers of one connection.
_HOP: Final = frozenset({"host", "connection", "content-length", "transfer-encoding", "content-encoding"})


class SnapshotServer:
    def __init__(self, access: Access) -> None:
        self._access = access
        #: Watch events; the resourceVersion is their number.
        self._events: list[dict[str, Any]] = []
        self._changed = asyncio.Condition()
        self._loop = asyncio.get_running_loop()

    def put(self, content: dict[str, Any]) -> None:
        """Create the object, or replace it. From any thread."""
        asyncio.run_coroutine_threadsafe(self._put(content), self._loop).result()

    async def _put(self, content: dict[str, Any]) -> None:
        known = {event["object"]["metadata"]["name"] for event in self._events}
        metadata = content["metadata"] | {"resourceVersion": str(len(self._events) + 1), "uid": "u"}
        whose = {"apiVersion": SNAPSHOT_CONTENT.api_version, "kind": SNAPSHOT_CONTENT.kind}
        kind = "MODIFIED" if metadata["name"] in known else "ADDED"
        self._events.append({"type": kind, "object": content | whose | {"metadata": metadata}})
        async with self._changed:
            self._changed.notify_all()

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[str]:
        """The address."""
        headers = {"Authorization": f"Bearer {self._access.token}"} if self._access.token else {}
        connector = aiohttp.TCPConnector(ssl=self._access.tls() or False)
        async with aiohttp.ClientSession(connector=connector, headers=headers, auto_decompress=True) as session:
            app = web.Application(client_max_size=1 << 24)
            app.router.add_route("*", "/{path:.*}", partial(self._handle, session))
            runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
            await runner.setup()
            site = web.TCPSite(runner, "127.0.0.1", 0)
            await site.start()
            try:
                yield f"http://127.0.0.1:{runner.addresses[0][1]}"
            finally:
                await runner.cleanup()

    async def _handle(self, session: aiohttp.ClientSession, request: web.Request) -> web.StreamResponse:
        if request.path == PATH:
            return await self._watch(request) if "watch" in request.query else self._list()
        headers = {name: value for name, value in request.headers.items() if name.lower() not in _HOP}
        url, body = f"{self._access.server}{request.path_qs}", await request.read()
        async with session.request(request.method, url, headers=headers, data=body, timeout=None) as answer:
            kept = {name: value for name, value in answer.headers.items() if name.lower() not in _HOP}
            response = web.StreamResponse(status=answer.status, headers=kept)
            await response.prepare(request)
            async for chunk in answer.content.iter_any():
                await response.write(chunk)
            return response

    def _list(self) -> web.Response:
        items = {event["object"]["metadata"]["name"]: event["object"] for event in self._events}
        meta = {"resourceVersion": str(len(self._events))}
        whose = {"apiVersion": SNAPSHOT_CONTENT.api_version, "kind": f"{SNAPSHOT_CONTENT.kind}List"}
        return web.json_response(whose | {"metadata": meta, "items": list(items.values())})

    async def _watch(self, request: web.Request) -> web.StreamResponse:
        if "sendInitialEvents" in request.query:
            status = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "BadRequest", "code": 400}
            return web.json_response(status | {"message": "lists are not streamed"}, status=400)
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        seen = int(request.query["resourceVersion"])
        while True:
            for event in self._events[seen:]:
                await response.write(json.dumps(event).encode() + b"\n")
            seen = len(self._events)
            async with self._changed:
                await self._changed.wait_for(lambda: len(self._events) > seen)  # noqa: B023  awaited at once


@contextmanager
def serving_snapshots(kubeconfig: Path, folder: Path) -> Iterator[tuple[SnapshotServer, Path]]:
    """The server in front of that of `kubeconfig`, and the kubeconfig for it."""
    started, ended = threading.Event(), threading.Event()
    made: list[SnapshotServer] = []
    front = folder / "snapshots.kubeconfig"

    async def main() -> None:
        server = SnapshotServer(from_files([kubeconfig]))
        async with server.serving() as address:
            clusters = [{"name": "c", "cluster": {"server": address}}]
            contexts = [{"name": "c", "context": {"cluster": "c", "user": "u"}}]
            whole = {"apiVersion": "v1", "kind": "Config", "current-context": "c", "users": [{"name": "u", "user": {}}]}
            front.write_text(json.dumps(whole | {"clusters": clusters, "contexts": contexts}))
            made.append(server)
            started.set()
            await asyncio.to_thread(ended.wait)

    thread = threading.Thread(target=asyncio.run, args=(main(),))
    thread.start()
    try:
        assert started.wait(10), "the server did not start"
        yield made[0], front
    finally:
        ended.set()
        thread.join()
