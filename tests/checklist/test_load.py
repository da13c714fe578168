"""Lines 91-95, small enough for every run: many objects, many watchers, a slow one, an idle one.

Measurements under full load are in `bench/`; here no event is lost and clients do not block each other.
"""

import contextlib
import socket
import ssl
import threading
import time

from mooring.client.kubeconfig import from_files
from mooring.server.http.watches import DRAIN_SECONDS
from support.checklist.bare_server import BareServer
from support.checklist.wire import Connection, Wire
from support.e2e.kubectl import Kubectl


def configs(space: str, name: str = "") -> str:
    return f"/api/v1/namespaces/{space}/configmaps" + (f"/{name}" if name else "")


def fill(server: BareServer, space: str, count: int, *, size: int = 10) -> None:
    connection = Connection(from_files([server.kubeconfig]))
    for number in range(count):
        body = {"metadata": {"name": f"c-{number:05}"}, "data": {"k": "x" * size}}
        assert connection("POST", configs(space), body)[0] == 201
    connection.close()


def test_91_a_long_list_comes_in_chunks(server: BareServer, kubectl: Kubectl, space: str) -> None:
    fill(server, space, 1200)
    listed = kubectl("-n", space, "get", "configmaps", "-o", "name", "--chunk-size=500").split()
    assert len(listed) == len(set(listed)) == 1200


def test_92_no_watcher_misses_an_event(server: BareServer, wire: Wire, space: str) -> None:
    start = wire.get(configs(space))["metadata"]["resourceVersion"]
    seen: list[list[str]] = []

    def watch() -> None:
        path = f"{configs(space)}?watch=1&resourceVersion={start}&timeoutSeconds=20"
        versions: list[str] = []
        with wire.watch(path) as events:
            for event in events:
                versions.append(event["object"]["metadata"]["resourceVersion"])
                if len(versions) == 200:
                    break
        seen.append(versions)

    watchers = [threading.Thread(target=watch) for _ in range(20)]
    for watcher in watchers:
        watcher.start()
    fill(server, space, 200)
    for watcher in watchers:
        watcher.join(timeout=30)
    wanted = [item["metadata"]["resourceVersion"] for item in wire.get(configs(space))["items"]]
    assert seen == [wanted] * 20


def test_93_stalled_watch_is_closed(server: BareServer, wire: Wire, space: str) -> None:
    access = from_files([server.kubeconfig])
    host, port = access.server.removeprefix("https://").split(":")
    plain = socket.socket()
    plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    plain.connect((host, int(port)))
    with ssl.create_default_context(cadata=access.authority).wrap_socket(plain, server_hostname=host) as stalled:
        request = (
            f"GET {configs(space)}?watch=1 HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {access.token}\r\n\r\n"
        )
        stalled.sendall(request.encode())
        assert stalled.recv(12) == b"HTTP/1.1 200"
        fill(server, space, 100, size=200_000)
        assert len(wire.get(f"{configs(space)}?limit=1")["items"]) == 1
        time.sleep(DRAIN_SECONDS + 1)
        stalled.settimeout(5)
        received = 0
        with contextlib.suppress(ssl.SSLError):  # it ends in the middle of whatever was on its way
            while chunk := stalled.recv(1 << 20):
                received += len(chunk)
        assert received < 100 * 200_000, "all events were sent, so the watch was not closed"


def test_94_leases_do_not_hold_up_pods(server: BareServer, wire: Wire, space: str) -> None:
    path = f"/apis/coordination.k8s.io/v1/namespaces/{space}/leases/l"
    stopping = threading.Event()
    renewed = []

    def renew() -> None:
        connection = Connection(from_files([server.kubeconfig]))
        _, lease = connection("PUT", path, {"metadata": {"name": "l"}, "spec": {"leaseTransitions": 0}})
        while not stopping.is_set():
            lease["spec"]["leaseTransitions"] += 1
            code, lease = connection("PUT", path, lease)
            assert code == 200
            renewed.append(code)
        connection.close()

    renewing = threading.Thread(target=renew)
    renewing.start()
    try:
        with wire.watch(f"{configs(space)}?watch=1&timeoutSeconds=20") as events:
            for number in range(20):
                wire.post(configs(space), {"metadata": {"name": f"c-{number}"}})
                assert next(events)["object"]["metadata"]["name"] == f"c-{number}"
    finally:
        stopping.set()
        renewing.join(timeout=20)
    assert len(renewed) > 20


def test_95_an_idle_connection_still_works(server: BareServer, space: str) -> None:
    """The short version of 100 seconds: longer than a second, which some servers close after."""
    connection = Connection(from_files([server.kubeconfig]))
    assert connection("GET", configs(space))[0] == 200
    time.sleep(3)
    assert connection("POST", configs(space), {"metadata": {"name": "a"}})[0] == 201
    connection.close()
