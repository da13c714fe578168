import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mooring.api.errors import ApiError, BadRequest, Expired, Invalid, ServerTimeout, ServiceUnavailable
from mooring.api.kinds import CONFIG_MAP, POD
from mooring.api.patches.contract import MergePatch
from mooring.server.contract import ListOptions, StreamEvent, WatchOptions
from mooring.store.state import Limits
from mooring.store.watch_cache import MemoryStore
from support.builders import Body, pod_body
from support.server.harness import Harness, causes, decoded

Stream = AsyncGenerator[StreamEvent | None, None]
#: What informers ask for.
STREAMED_LIST = WatchOptions(send_initial_events=True, resource_version_match="NotOlderThan", bookmarks=True)


def config(name: str, **labels: str) -> Body:
    return {"metadata": {"name": name, "labels": labels}}


def relabelled(**labels: str | None) -> MergePatch:
    return MergePatch({"metadata": {"labels": labels}})


async def batch(stream: Stream) -> list[tuple[str, Body]]:
    """The events up to the next good moment to flush."""
    events = []
    async for event in stream:
        if event is None:
            break
        events.append((event.type, decoded(event.body)))
    return events


async def drained(stream: Stream) -> None:
    async for _ in stream:
        pass


def brief(events: list[tuple[str, Body]]) -> list[tuple[str, str, str]]:
    return [(type_, o["metadata"].get("name", ""), o["metadata"]["resourceVersion"]) for type_, o in events]


async def test_every_change_after_a_version_in_order(server: Harness) -> None:
    first = await server.create(CONFIG_MAP, config("a"))
    await server.create(CONFIG_MAP, config("b"))
    await server.create(CONFIG_MAP, config("elsewhere"), namespace="other")
    await server.patch(CONFIG_MAP, "b", relabelled(x="y"))
    await server.delete(CONFIG_MAP, "a")
    version = first["metadata"]["resourceVersion"]
    async with aclosing(await server.watch(CONFIG_MAP, WatchOptions(resource_version=version))) as stream:
        events = await batch(stream)
    assert brief(events) == [("ADDED", "b", "4"), ("MODIFIED", "b", "6"), ("DELETED", "a", "7")]
    assert events[-1][1] == first | {"metadata": first["metadata"] | {"resourceVersion": "7"}}


async def test_changes_arrive_as_they_happen(server: Harness) -> None:
    options = WatchOptions(resource_version=str(server.revision))
    async with aclosing(await server.watch(CONFIG_MAP, options)) as stream:
        created = await server.create(CONFIG_MAP, config("a"))
        assert await batch(stream) == [("ADDED", created)]
        await server.delete(CONFIG_MAP, "a")
        assert brief(await batch(stream)) == [("DELETED", "a", str(server.revision))]


async def test_all_namespaces_at_once(server: Harness) -> None:
    async with aclosing(await server.watch(CONFIG_MAP, WatchOptions(), namespace="")) as stream:
        assert await batch(stream) == []
        await server.create(CONFIG_MAP, config("a"), namespace="other")
        await server.create(CONFIG_MAP, config("a"))
        assert [obj["metadata"]["namespace"] for _, obj in await batch(stream)] == ["other", "default"]


@pytest.mark.parametrize("version", ["", "0"])
async def test_a_watch_without_a_version_begins_with_what_is_there(server: Harness, version: str) -> None:
    await server.create(CONFIG_MAP, config("b"))
    await server.create(CONFIG_MAP, config("a"))
    async with aclosing(await server.watch(CONFIG_MAP, WatchOptions(resource_version=version))) as stream:
        assert brief(await batch(stream)) == [("ADDED", "a", "4"), ("ADDED", "b", "3")]
        await server.create(CONFIG_MAP, config("c"))
        assert brief(await batch(stream)) == [("ADDED", "c", "5")]


@pytest.mark.parametrize(
    "options",
    [
        pytest.param(STREAMED_LIST, id="as informers ask"),
        pytest.param(WatchOptions(bookmarks=True), id="implied by bookmarks without a version"),
        pytest.param(
            WatchOptions(
                send_initial_events=True, resource_version_match="NotOlderThan", bookmarks=True, resource_version="1"
            ),
            id="not older than an old version",
        ),
    ],
)
async def test_a_streamed_list_says_where_it_ends(server: Harness, options: WatchOptions) -> None:
    created = await server.create(CONFIG_MAP, config("a"))
    await server.create(CONFIG_MAP, config("b"), namespace="other")
    async with aclosing(await server.watch(CONFIG_MAP, options)) as stream:
        assert await batch(stream) == [
            ("ADDED", created),
            (
                "BOOKMARK",
                {
                    "kind": "ConfigMap",
                    "apiVersion": "v1",
                    "metadata": {
                        "resourceVersion": str(server.revision),
                        "annotations": {"k8s.io/initial-events-end": "true"},
                    },
                },
            ),
        ]


async def test_watch_with_send_initial_events_false(server: Harness) -> None:
    await server.create(CONFIG_MAP, config("a"))
    options = WatchOptions(
        send_initial_events=False, resource_version_match="NotOlderThan", resource_version=str(server.revision)
    )
    async with aclosing(await server.watch(CONFIG_MAP, options)) as stream:
        await server.create(CONFIG_MAP, config("b"))
        assert brief(await batch(stream)) == [("ADDED", "b", "4")]


async def test_watch_of_an_unknown_version_expires(server: Harness) -> None:
    """The data was replaced by an older backup: the client has to list again."""
    with pytest.raises(Expired, match="too large resource version: 4, current: 2"):
        await server.watch(CONFIG_MAP, WatchOptions(resource_version="4"))


async def test_watch_waits_for_version_of_another_server(server: Harness) -> None:
    """A store shared by several servers may not have seen what another has acknowledged: it asks first."""

    async def others_write() -> None:
        for name in "abc":
            await server.create(CONFIG_MAP, config(name))

    server.store.wait_current = others_write  # type: ignore[method-assign]
    async with aclosing(await server.watch(CONFIG_MAP, WatchOptions(resource_version="4"))) as stream:
        assert brief(await batch(stream)) == [("ADDED", "c", "5")]


async def test_streamed_list_of_a_future_version_times_out(server: Harness) -> None:
    options = WatchOptions(
        send_initial_events=True, resource_version_match="NotOlderThan", bookmarks=True, resource_version="99"
    )
    with pytest.raises(ServerTimeout, match="Too large resource version: 99, current: 2"):
        await server.watch(CONFIG_MAP, options)


async def test_selectors_turn_changes_into_added_and_deleted(server: Harness) -> None:
    inside = await server.create(CONFIG_MAP, config("a", app="web"))
    await server.create(CONFIG_MAP, config("b", app="db"))
    options = WatchOptions(resource_version=str(server.revision), labels="app=web")
    async with aclosing(await server.watch(CONFIG_MAP, options)) as stream:
        await server.patch(CONFIG_MAP, "a", relabelled(app="db"))
        await server.patch(CONFIG_MAP, "b", relabelled(app="web"))
        await server.patch(CONFIG_MAP, "b", relabelled(tier="1"))
        await server.patch(CONFIG_MAP, "a", relabelled(tier="1"))
        await server.delete(CONFIG_MAP, "a")
        await server.delete(CONFIG_MAP, "b")
        events = await batch(stream)
    assert brief(events) == [
        ("DELETED", "a", "5"),
        ("ADDED", "b", "6"),
        ("MODIFIED", "b", "7"),
        ("DELETED", "b", "10"),
    ]
    assert events[0][1]["metadata"]["labels"] == inside["metadata"]["labels"], "as it was when it still fitted"


async def test_finished_pod_is_deleted_for_a_phase_selector(server: Harness) -> None:
    await server.create(POD, pod_body(name="a"))
    fields = "status.phase!=Succeeded,status.phase!=Failed"
    async with aclosing(await server.watch(POD, WatchOptions(fields=fields))) as stream:
        assert brief(await batch(stream)) == [("ADDED", "a", "3")]
        await server.patch(POD, "a", MergePatch({"status": {"phase": "Succeeded"}}), subresource="status")
        events = await batch(stream)
    assert brief(events) == [("DELETED", "a", "4")]
    assert events[0][1]["status"]["phase"] == "Pending"


async def test_removing_the_last_finalizer_is_one_event(server: Harness) -> None:
    await server.create(CONFIG_MAP, {"metadata": {"name": "a", "finalizers": ["a.io/x"]}})
    await server.delete(CONFIG_MAP, "a")
    options = WatchOptions(resource_version=str(server.revision))
    async with aclosing(await server.watch(CONFIG_MAP, options)) as stream:
        await server.patch(CONFIG_MAP, "a", MergePatch({"metadata": {"finalizers": None}}))
        assert brief(await batch(stream)) == [("DELETED", "a", str(server.revision))]


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        pytest.param(WatchOptions(labels="a in (b"), BadRequest, "unable to parse requirement", id="labels"),
        pytest.param(WatchOptions(fields="data=1"), BadRequest, "not a known field selector", id="fields"),
        pytest.param(WatchOptions(resource_version="abc"), ApiError, "invalid syntax", id="not a version"),
        pytest.param(
            WatchOptions(send_initial_events=True), Invalid, "sendInitialEvents requires setting", id="match is missing"
        ),
        pytest.param(
            WatchOptions(resource_version_match="NotOlderThan"),
            Invalid,
            "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
            id="match alone",
        ),
        pytest.param(
            WatchOptions(send_initial_events=True, resource_version_match="Exact"),
            Invalid,
            'Unsupported value: "Exact"',
            id="another match",
        ),
    ],
)
async def test_a_wrong_request_is_refused_before_the_first_event(
    server: Harness, options: WatchOptions, error: type[ApiError], message: str
) -> None:
    with pytest.raises(error) as refusal:
        await server.watch(CONFIG_MAP, options)
    assert message in refusal.value.message
    if error is Invalid:
        assert refusal.value.message.startswith('ListOptions.meta.k8s.io "" is invalid: ')
        assert {cause.field for cause in causes(refusal.value)} == {"resourceVersionMatch"}


async def test_watch_of_a_compacted_version_expires() -> None:
    server = await Harness(MemoryStore(history=Limits(changes=2, bytes=1 << 20))).start()
    for name in "abc":
        await server.create(CONFIG_MAP, config(name))
    with pytest.raises(Expired) as refusal:
        await server.watch(CONFIG_MAP, WatchOptions(resource_version="1"))
    assert refusal.value.message == "too old resource version: 1 (3)"
    assert refusal.value.code == 410


async def test_slow_watch_is_closed_with_an_error() -> None:
    server = await Harness(MemoryStore(backlog=Limits(changes=2, bytes=1 << 20))).start()
    async with aclosing(await server.watch(CONFIG_MAP, WatchOptions())) as stream:
        for name in "abc":
            await server.create(CONFIG_MAP, config(name))
        with pytest.raises(ServiceUnavailable, match="did not keep up"):
            await drained(stream)


async def test_a_watch_ends_with_the_store(server: Harness) -> None:
    async with aclosing(await server.watch(CONFIG_MAP, WatchOptions())) as stream:
        await server.store.close()
        with pytest.raises(ServiceUnavailable, match="shutting down"):
            await drained(stream)


@pytest.mark.parametrize("events_taken", [0, 1])
async def test_closing_a_watch_leaves_nothing_behind(server: Harness, events_taken: int) -> None:
    await server.create(CONFIG_MAP, config("a"))
    stream = await server.watch(CONFIG_MAP, WatchOptions())
    for _ in range(events_taken):
        await anext(stream)
    await stream.aclose()
    assert server.store._hub._buckets == {}  # type: ignore[attr-defined]


actions = st.lists(
    st.tuples(st.sampled_from("abc"), st.sampled_from(["in", "out", "gone", "finalizer"])), min_size=1, max_size=12
)


@settings(max_examples=50)
@given(actions, st.data())
async def test_a_list_and_the_changes_since_give_the_state(steps: list[tuple[str, str]], data: st.DataObject) -> None:
    """From any version on, with a selector, replaying the events on the list of then gives the list of now."""
    server = await Harness().start()
    snapshots: list[tuple[str, dict[str, Body]]] = []
    selection = ListOptions(labels="in=yes")

    async def snapshot() -> tuple[str, dict[str, Body]]:
        page = await server.page(CONFIG_MAP, selection)
        return page.resource_version, {obj["metadata"]["name"]: obj for obj in map(decoded, page.items)}

    snapshots.append(await snapshot())
    for name, action in steps:
        await act(server, name, action)
        snapshots.append(await snapshot())
    version, state = data.draw(st.sampled_from(snapshots))
    if version != str(server.revision):
        options = WatchOptions(resource_version=version, labels=selection.labels)
        async with aclosing(await server.watch(CONFIG_MAP, options)) as stream:
            for type_, obj in await batch(stream):
                name = obj["metadata"]["name"]
                assert (name in state) is (type_ != "ADDED")
                state.pop(name, None)
                if type_ != "DELETED":
                    state[name] = obj
    assert state == snapshots[-1][1]


async def act(server: Harness, name: str, action: str) -> None:
    exists = any(obj["metadata"]["name"] == name for obj in await server.listed(CONFIG_MAP))
    if not exists:
        finalizers = ["a.io/x"] if action == "finalizer" else []
        labels = {"in": "yes"} if action == "in" else {}
        await server.create(CONFIG_MAP, {"metadata": {"name": name, "labels": labels, "finalizers": finalizers}})
    elif action == "gone":
        await server.delete(CONFIG_MAP, name)
    elif action == "finalizer":
        await server.patch(CONFIG_MAP, name, MergePatch({"metadata": {"finalizers": None}}))
    else:
        await server.patch(CONFIG_MAP, name, relabelled(**{"in": "yes" if action == "in" else None}))


async def test_idle_watch_gets_bookmarks(server: Harness) -> None:
    """Once a minute, and only if something happened since it last said so."""
    asked, minutes = [], asyncio.Queue[None]()

    async def minute(seconds: float) -> None:
        asked.append(seconds)
        await minutes.get()

    server.clock.sleep = minute  # type: ignore[method-assign]
    options = WatchOptions(resource_version=str(server.revision), bookmarks=True, bookmark_every=60)
    async with aclosing(await server.watch(CONFIG_MAP, options)) as stream:
        minutes.put_nowait(None)
        assert await batch(stream) == []
        await server.create(POD, pod_body(name="a"))
        minutes.put_nowait(None)
        version = str(server.revision)
        bookmark = {"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"resourceVersion": version}}
        assert await batch(stream) == [("BOOKMARK", bookmark)]
        await server.create(CONFIG_MAP, config("a"))
        minutes.put_nowait(None)
        assert [type_ for type_, _ in await batch(stream)] == ["ADDED"]
        assert await batch(stream) == []
    assert set(asked) == {60}


async def test_watch_gets_bookmarks_for_changes_it_does_not_select(server: Harness) -> None:
    """Its selector admits nothing of what happens: without bookmarks it falls out of history and lists again."""
    minutes = asyncio.Queue[None]()

    async def minute(_: float) -> None:
        await minutes.get()

    server.clock.sleep = minute  # type: ignore[method-assign]
    options = WatchOptions(resource_version=str(server.revision), bookmarks=True, bookmark_every=60, labels="in=yes")
    async with aclosing(await server.watch(CONFIG_MAP, options)) as stream:
        for name in "abc":
            await server.create(CONFIG_MAP, config(name))
        assert await batch(stream) == [], "nothing of it is to be seen"
        minutes.put_nowait(None)
        [(type_, body)] = await batch(stream)
        assert (type_, body["metadata"]["resourceVersion"]) == ("BOOKMARK", str(server.revision))


async def test_backlog_is_delivered_in_batches(server: Harness) -> None:
    """Events of a whole backlog are not made at once."""
    async with aclosing(await server.watch(CONFIG_MAP, WatchOptions(resource_version=str(server.revision)))) as stream:
        for name in "abc":
            await server.create(CONFIG_MAP, {**config(name), "data": {"x": "y" * (700 << 10)}})
        assert [len(await batch(stream)) for _ in "abc"] == [1, 1, 1]


async def test_watch_gets_a_bookmark_before_its_end(server: Harness) -> None:
    asked: list[float] = []

    async def at_once(seconds: float) -> None:
        asked.append(seconds)

    options = WatchOptions(resource_version=str(server.revision), bookmarks=True, bookmark_every=60, ends_after=100)
    await server.create(POD, pod_body(name="a"))
    server.clock.sleep = at_once  # type: ignore[method-assign]
    async with aclosing(await server.watch(CONFIG_MAP, options)) as stream:
        assert [type_ for type_, _ in await batch(stream)] == ["BOOKMARK"]
    assert asked == [60, 38]
