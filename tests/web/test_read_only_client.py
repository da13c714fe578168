"""A client that cannot write, and says what it cannot read."""

from collections.abc import Awaitable, Callable

import pytest

from mooring.api.errors import ApiError, Expired, Forbidden, Unauthorized
from mooring.api.kinds import NODE
from mooring.api.patches.contract import MergePatch
from mooring.client.contract import Unreachable
from mooring.web.session import ReadOnlyClient
from support.builders import node_body
from support.fake_api_server import FakeApiServer
from support.fake_client import FakeClient

WRITES: dict[str, Callable[[ReadOnlyClient], Awaitable[object]]] = {
    "create": lambda client: client.create(NODE, node_body(name="new")),
    "update": lambda client: client.update(NODE, node_body(name="old")),
    "patch": lambda client: client.patch(NODE, "old", MergePatch({})),
    "delete": lambda client: client.delete(NODE, "old"),
    "bind": lambda client: client.bind("p", namespace="default", uid="u", node="old"),
    "evict": lambda client: client.evict("p", namespace="default"),
}


class Notes:
    def __init__(self) -> None:
        self.taken: list[tuple[str, str]] = []

    def __call__(self, kind: str, state: str, text: str) -> None:
        self.taken.append((kind, state))


def reading(*failures: Exception) -> tuple[ReadOnlyClient, FakeClient, Notes]:
    api = FakeApiServer()
    api.create(NODE, "", node_body(name="old"))
    below, notes = FakeClient(api), Notes()
    below.failures += failures
    return ReadOnlyClient(below, notes), below, notes


@pytest.mark.parametrize("verb", WRITES)
async def test_no_write_gets_through(verb: str) -> None:
    client, below, _ = reading()
    with pytest.raises(Forbidden, match="the page only reads"):
        await WRITES[verb](client)
    assert below.requests == []


async def test_reads_get_through() -> None:
    client, _, notes = reading()
    assert (await client.get(NODE, "old")).name == "old"
    assert [node.name for node in (await client.list(NODE)).items] == ["old"]
    assert notes.taken == [("nodes", "")]


@pytest.mark.parametrize(
    ("failure", "state"),
    [
        pytest.param(Forbidden("no"), "forbidden", id="not allowed"),
        pytest.param(Unauthorized("who are you"), "forbidden", id="not known"),
        pytest.param(Unreachable("refused"), "unreachable", id="no answer"),
        pytest.param(ApiError("boom"), "unreachable", id="an answer that is no use"),
        pytest.param(Expired("too old"), None, id="what an informer knows how to deal with"),
    ],
)
async def test_failed_reads_are_noted(failure: Exception, state: str | None) -> None:
    client, below, notes = reading(failure)
    expected = [] if state is None else [("nodes", state)]
    with pytest.raises(type(failure)):
        await client.list(NODE)
    assert notes.taken == expected
    below.failures.append(failure)
    with pytest.raises(type(failure)):
        await anext(client.watch(NODE, after="1"))
    assert notes.taken == 2 * expected


async def test_news_take_a_note_back() -> None:
    client, _, notes = reading()
    stream = client.watch(NODE, after=None)
    await anext(stream)
    assert notes.taken == [("nodes", "")]
    await stream.aclose()
