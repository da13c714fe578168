"""Watches of the real kube-apiserver and of ours: bookmarks beside selectors, and versions that were never given."""

import threading
from collections.abc import Callable, Iterator
from typing import Final

import pytest

from conformance.both_servers import ApiEndpoint, Json, Request, our_server
from conformance.control_plane import ControlPlane

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
    answer = server.ask(Request("", "GET", PLACE))
    assert isinstance(answer.body, dict)
    return int(answer.body["metadata"]["resourceVersion"])


def watched(server: ApiEndpoint, query: str) -> list[Json]:
    """All events of a watch, and what happens meanwhile: three config maps that its selector does not admit."""
    begun = threading.Timer(0.5, lambda: [_create(server, name) for name in ("w1", "w2", "w3")])
    begun.start()
    answer = server.ask(Request("", "GET", f"{PLACE}?watch=1&timeoutSeconds={SECONDS}&{query}"))
    begun.join()
    for name in ("w1", "w2", "w3"):
        server.ask(Request("", "DELETE", f"{PLACE}/{name}"))
    assert answer.code == 200
    found = answer.body
    return found if isinstance(found, list) else [found] if found else []


def _create(server: ApiEndpoint, name: str) -> None:
    server.ask(Request("", "POST", PLACE, {"metadata": {"name": name}}))


@pytest.mark.parametrize("whose", ["theirs", "ours"])
def test_a_watch_with_a_selector_gets_bookmarks_while_its_collection_changes(
    servers: dict[str, ApiEndpoint], whose: str
) -> None:
    server = servers[whose]
    before = version(server)
    events = watched(server, f"resourceVersion={before}&allowWatchBookmarks=true&labelSelector=in%3Dyes")
    assert events
    assert all(isinstance(event, dict) and event["type"] == "BOOKMARK" for event in events)
    last = events[-1]
    assert isinstance(last, dict)
    assert int(last["object"]["metadata"]["resourceVersion"]) >= before + 3


@pytest.mark.parametrize(
    ("whose", "want"),
    [
        # Calibration: a difference that `docs/differences.md` explains.
        pytest.param("theirs", [], id="theirs are silent"),
        pytest.param("ours", [410], id="ours say that it is gone"),
    ],
)
def test_a_watch_from_a_version_that_was_never_given(
    servers: dict[str, ApiEndpoint], whose: str, want: list[int]
) -> None:
    server = servers[whose]
    ahead = version(server) + 1_000_000
    answer = server.ask(Request("", "GET", f"{PLACE}?watch=1&timeoutSeconds={SECONDS}&resourceVersion={ahead}"))
    assert answer.code == 200
    lines = answer.body if isinstance(answer.body, list) else [answer.body] if answer.body else []
    assert [line["object"]["code"] for line in lines if line["type"] != "BOOKMARK"] == want
