"""A `mooring up` process for the duration of a block, with the few calls that most tests need.

Calls are synchronous and independent: each opens a connection and closes it, so that a cluster may be used from any
thread and from code with an event loop of its own. Objects are plain dictionaries, as kubectl prints them.
"""

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Final, TypeAlias
from urllib.parse import urlencode

import msgspec

from mooring.api.documents import yaml_documents
from mooring.api.errors import NotFound
from mooring.api.kinds import BY_KIND, KINDS, Kind
from mooring.api.views.meta import ApiObject
from mooring.client.kubeconfig import load
from mooring.client.transport import TIMEOUT, Request, Transport
from mooring.clock import SystemClock

#: One object, or a document with a list of them.
Manifest: TypeAlias = Mapping[str, Any]
Object: TypeAlias = dict[str, Any]

#: Seconds a start may take; it takes one or two, a busy machine needs more.
START_SECONDS: Final = 60.0
#: Seconds `wait` waits unless told otherwise, and between two reads.
WAIT_SECONDS: Final = 30.0
POLL_SECONDS: Final = 0.05
#: Field manager of `apply`, and name in the server's log.
NAME: Final = "mooring-testing"
_APPLY: Final = "application/apply-patch+yaml"
#: Lines of the process's log that an error repeats.
_LOG_LINES: Final = 20


class StartFailed(RuntimeError):
    """The cluster did not start; the text ends with the last lines of its log."""


class WaitTimeout(AssertionError):
    """What `wait` waited for did not happen; the text has the last state of the object."""


class TestCluster:
    """A running cluster. `cluster` makes it."""

    #: Not a test case, although pytest collects classes of this name.
    __test__ = False

    def __init__(self, url: str, kubeconfig: Path) -> None:
        self.url = url
        #: For kubectl and every other client, as administrator.
        self.kubeconfig = kubeconfig

    @property
    def environment(self) -> dict[str, str]:
        """The variables of this process with KUBECONFIG, for `subprocess.run(..., env=cluster.environment)`."""
        return {**os.environ, "KUBECONFIG": str(self.kubeconfig)}

    def apply(
        self, manifests: Path | str | Manifest | Iterable[Manifest], *, namespace: str = "default"
    ) -> list[Object]:
        """Server-side apply of objects, YAML text, or the YAML and JSON files of a path; returns the objects.

        `namespace` is that of namespaced objects without one. Raises ApiError, and ValueError for unknown kinds.
        """
        applied: list[Object] = self._run(lambda call: self._apply(call, _objects(manifests), namespace))
        return applied

    def get(self, kind: str, name: str, *, namespace: str = "default") -> Object:
        """One object. `kind` is a kind, plural or short name as in kubectl. Raises NotFound."""
        row = _kind(kind)
        found: Object = self._read(row.path(namespace=namespace, name=name))
        return found

    def objects(self, kind: str, *, namespace: str = "", selector: str = "") -> list[Object]:
        """All objects of a kind, of one namespace if named, that match a label selector if given."""
        row = _kind(kind)
        query = f"?{urlencode({'labelSelector': selector})}" if selector else ""
        items: list[Object] = self._read(row.path(namespace=namespace) + query)["items"]
        return [{"apiVersion": row.api_version, "kind": row.kind} | item for item in items]

    def delete(self, kind: str, name: str, *, namespace: str = "default") -> None:
        """Raises NotFound."""
        path = _kind(kind).path(namespace=namespace, name=name)
        self._run(lambda call: call(Request("DELETE", path)))

    def wait(
        self,
        kind: str,
        name: str,
        condition: Callable[[Object], bool],
        *,
        namespace: str = "default",
        timeout: float = WAIT_SECONDS,
    ) -> Object:
        """The object once it exists and satisfies the condition. Raises WaitTimeout."""
        clock = SystemClock()
        deadline = clock.monotonic() + timeout
        found: Object | None = None
        while True:
            try:
                found = self.get(kind, name, namespace=namespace)
            except NotFound:
                found = None
            if found is not None and condition(found):
                return found
            if clock.monotonic() >= deadline:
                state = (
                    "does not exist"
                    if found is None
                    else f"is\n{msgspec.json.format(msgspec.json.encode(found)).decode()}"
                )
                raise WaitTimeout(f"after {timeout:g} s {kind}/{name} {state}")
            _outside_of_event_loops(lambda: clock.sleep(POLL_SECONDS))

    def wait_running(self, *names: str, namespace: str = "default", timeout: float = WAIT_SECONDS) -> list[Object]:
        """The pods once all of them run. Raises WaitTimeout."""
        return [
            self.wait(
                "Pod", name, lambda pod: pod["status"].get("phase") == "Running", namespace=namespace, timeout=timeout
            )
            for name in names
        ]

    def mooring(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        """Run a command such as `explain pod/db-0 -o json` against this cluster."""
        command = [sys.executable, "-m", "mooring", *arguments]
        return subprocess.run(command, env=self.environment, capture_output=True, text=True, check=False)

    async def _apply(self, call: "_Call", objects: Iterable[Manifest], namespace: str) -> list[Object]:
        applied = []
        for each in objects:
            kind = BY_KIND.get((each.get("apiVersion", ""), each.get("kind", "")))
            if kind is None:
                raise ValueError(f"{each.get('apiVersion')} {each.get('kind')} is not a kind that Mooring serves")
            metadata = each.get("metadata", {})
            path = kind.path(namespace=metadata.get("namespace") or namespace, name=metadata.get("name", ""))
            query = {"fieldManager": NAME, "force": "true"}
            body = msgspec.json.encode(each)
            applied.append(msgspec.json.decode(await call(Request("PATCH", path, query, body, _APPLY))))
        return applied

    def _read(self, path: str) -> Any:  # noqa: ANN401  # decoded JSON
        return msgspec.json.decode(self._run(lambda call: call(Request("GET", path))))

    def _run(self, work: "Callable[[_Call], Any]") -> Any:  # noqa: ANN401
        async def run() -> Any:  # noqa: ANN401
            access = load(str(self.kubeconfig))
            transport = Transport(access, component=NAME, clock=SystemClock(), timeout=TIMEOUT, in_flight=1)
            try:
                return await work(transport.call)
            finally:
                await transport.close()

        return _outside_of_event_loops(run)


_Call: TypeAlias = Callable[[Request], Any]


@contextmanager
def cluster(
    *, nodes: int = 3, zones: int = 3, local_pvs: int = 2, options: Iterable[str] = (), timeout: float = START_SECONDS
) -> Iterator[TestCluster]:
    """An embedded cluster that is ready inside the block and gone after it; nothing stays on disk.

    `options` are further ones of `mooring up`, such as `--feature-gates=...`. Raises StartFailed.
    """
    with tempfile.TemporaryDirectory(prefix="mooring-") as folder:
        kubeconfig = Path(folder) / "kubeconfig"
        command = [sys.executable, "-m", "mooring", "up", "--in-memory", "--no-page", "--port=0", "--output=json"]
        command += [f"--kubeconfig={kubeconfig}", f"--nodes={nodes}", f"--zones={zones}", f"--local-pvs={local_pvs}"]
        with tempfile.TemporaryFile("w+") as log:
            process = subprocess.Popen([*command, *options], stdout=subprocess.PIPE, stderr=log, text=True)
            try:
                started = _first_line(process, log, timeout)
                yield TestCluster(msgspec.json.decode(started)["url"], kubeconfig)
            finally:
                _stop(process)


def _first_line(process: "subprocess.Popen[str]", log: IO[str], timeout: float) -> str:
    """The line that the process prints when it is ready."""
    assert process.stdout is not None
    timer = threading.Timer(timeout, process.kill)
    timer.start()
    try:
        line = process.stdout.readline()
    finally:
        timer.cancel()
    if line:
        return line
    code = process.wait()
    log.seek(0)
    said = "".join(log.readlines()[-_LOG_LINES:])
    why = f"was not ready within {timeout:g} s" if code == -signal.SIGKILL else f"ended with exit code {code}"
    raise StartFailed(f"mooring up {why}\n{said}".rstrip())


def _stop(process: "subprocess.Popen[str]") -> None:
    """Ask the process to end; it is killed if it does not."""
    process.terminate()
    try:
        process.communicate(timeout=START_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()


def _outside_of_event_loops(run: Callable[[], Any]) -> Any:  # noqa: ANN401
    """The result of the coroutine; in a thread of its own where the caller's thread runs an event loop already."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(run())
    outcome: list[Any] = []

    def body() -> None:
        try:
            outcome.append((asyncio.run(run()), None))
        except Exception as error:
            outcome.append((None, error))

    thread = threading.Thread(target=body, name=NAME)
    thread.start()
    thread.join()
    result, error = outcome[0]
    if error is not None:
        raise error
    return result


def _objects(manifests: Path | str | Manifest | Iterable[Manifest]) -> Iterator[Manifest]:
    match manifests:
        case Path() if manifests.is_dir():
            for path in sorted(manifests.iterdir()):
                if path.suffix in {".yaml", ".yml", ".json"}:
                    yield from _objects(path)
        case Path():
            yield from _objects(manifests.read_text())
        case str():
            for document in yaml_documents(manifests.encode()):
                if document is not None:
                    yield from _flattened(document)
        case Mapping():
            yield from _flattened(manifests)
        case _:
            for each in manifests:
                yield from _flattened(each)


def _flattened(document: Any) -> Iterator[Manifest]:  # noqa: ANN401
    """The objects of a List, or the object itself."""
    if not isinstance(document, Mapping):
        raise ValueError("a manifest is not an object")
    if document.get("kind") == "List":
        yield from document.get("items", ())
    else:
        yield document


def _kind(name: str) -> Kind[ApiObject]:
    """The kind with this name, plural or short name, in any case. Raises ValueError."""
    wanted = name.lower()
    for kind in KINDS:
        if wanted in (kind.singular, kind.plural, *kind.short):
            return kind
    raise ValueError(f"{name!r} is not a kind that Mooring serves")
