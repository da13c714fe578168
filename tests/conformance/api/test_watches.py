"""Watches of kube-apiserver and of ours: bookmarks with selectors, and versions that do not exist."""

import threading
from collections.abc import Callable, Iterator
from typing import Final

import pytest

from support.conformance.control_plane import ControlPlane
from support.conformance.server_pair import ApiEndpoint, Json, Request, our_server

PLACE: Final = "/api/v1/namespaces/default/configmaps"
#: A last bookmark comes two seconds before the end.
SECONDS: Final = 5


@pytest.fixture(scope="module")
def servers(
    start_kube: Callable[[], ControlPlane], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, ApiEndpoint]]:
    kube = start_kube()
    with our_server(tmp_path_factory.mktemp("ours")) as ours:
        yield {"theirs": ApiEndpoint(kube.kubeconfig), "ours": ours}


def version(server: ApiEndpoint) -> int:
    response = server.send(Request("", "GET", PLACE))
    assert isinstance(response.body, dict)
    return int(response.body["metadata"]["resourceVersion"])


def watched(server: ApiEndpoint, query: str) -> list[Json]:
    """All events of a watch, during which three ConfigMaps are created that its selector does not match."""
    begun = threading.Timer(0.5, lambda: [_create(server, name) for name in ("w1", "w2", "w3")])
    begun.start()
    response = server.send(Request("", "GET", f"{PLACE}?watch=1&timeoutSeconds={SECONDS}&{query}"))
    begun.join()
    for name in ("w1", "w2", "w3"):
        server.send(Request("", "DELETE", f"{PLACE}/{name}"))
    assert response.code == 200
    found = response.body
    return found if isinstance(found, list) else [found] if found else []


def _create(server: ApiEndpoint, name: str) -> None:
    server.send(Request("", "POST", PLACE, {"metadata": {"name": name}}))


@pytest.mark.parametrize("side", ["theirs", "ours"])
def test_watch_with_selector_gets_bookmarks(servers: dict[str, ApiEndpoint], side: str) -> None:
    server = servers[side]
    before = version(server)
    events = watched(server, f"resourceVersion={before}&allowWatchBookmarks=true&labelSelector=in%3Dyes")
    assert events
    assert all(isinstance(event, dict) and event["type"] == "BOOKMARK" for event in events)
    last = events[-1]
    assert isinstance(last, dict)
    assert int(last["object"]["metadata"]["resourceVersion"]) >= before + 3


@pytest.mark.parametrize(
    ("side", "want"),
    [
        # Calibration: a difference that `docs/differences.md` explains.
        pytest.param("theirs", [], id="kube-apiserver sends nothing"),
        pytest.param("ours", [410], id="ours sends 410"),
    ],
)
def test_watch_from_unknown_resource_version(servers: dict[str, ApiEndpoint], side: str, want: list[int]) -> None:
    server = servers[side]
    ahead = version(server) + 1_000_000
    response = server.send(Request("", "GET", f"{PLACE}?watch=1&timeoutSeconds={SECONDS}&resourceVersion={ahead}"))
    assert response.code == 200
    lines = response.body if isinstance(response.body, list) else [response.body] if response.body else []
    assert [line["object"]["code"] for line in lines if line["type"] != "BOOKMARK"] == want
