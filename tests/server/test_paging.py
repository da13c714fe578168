"""Lists in pages, and lists of the past."""

import base64
import itertools

import msgspec
import pytest

from mooring.api.errors import BadRequest, Expired, NotFound, ServerTimeout
from mooring.api.kinds import CONFIG_MAP, LEASE
from mooring.server.contract import DeleteOptions, ListOptions, Page, Target
from mooring.store.state import Limits
from mooring.store.watch_cache import MemoryStore
from support.builders import Body
from support.server.harness import TEST_USER, Harness, decoded

NAMES = ["a", "b", "c", "d", "e"]


def config(name: str, **labels: str) -> Body:
    return {"metadata": {"name": name, "labels": labels}}


async def filled(server: Harness) -> Harness:
    for number, name in enumerate(NAMES):
        await server.create(CONFIG_MAP, config(name, parity="even" if number % 2 == 0 else "odd"))
    return server


@pytest.fixture
async def forgetful() -> Harness:
    """A server that remembers three changes of each kind."""
    return await filled(await Harness(MemoryStore(history=Limits(changes=3, bytes=1 << 20))).start())


def names(page: Page) -> list[str]:
    return [decoded(item)["metadata"]["name"] for item in page.items]


async def first_page(server: Harness, limit: int = 2, **options: object) -> Page:
    return await server.page(CONFIG_MAP, ListOptions(limit=limit, **options))


async def next_page(server: Harness, page: Page, limit: int = 2, **options: object) -> Page:
    return await server.page(CONFIG_MAP, ListOptions(limit=limit, continue_token=page.continue_token, **options))


def opened(token: str) -> Body:
    body: Body = msgspec.json.decode(base64.urlsafe_b64decode(token + "=="))
    return body


def closed(**token: object) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode(token)).decode().rstrip("=")


async def test_pages_are_complete_and_count_remaining_items(server: Harness) -> None:
    first = await first_page(await filled(server))
    assert (names(first), first.remaining) == (["a", "b"], 3)
    assert opened(first.continue_token) == {
        "v": "meta.k8s.io/v1",
        "rv": int(first.resource_version),
        "start": "b\0",
    }
    second = await next_page(server, first)
    assert (names(second), second.remaining) == (["c", "d"], 1)
    third = await next_page(server, second)
    assert (names(third), third.remaining, third.continue_token) == (["e"], None, "")
    assert {first.resource_version, second.resource_version, third.resource_version} == {first.resource_version}


async def test_a_page_that_holds_everything_is_the_last(server: Harness) -> None:
    page = await first_page(await filled(server), limit=5)
    assert (names(page), page.remaining, page.continue_token) == (NAMES, None, "")


@pytest.mark.parametrize("limit", [0, -1], ids=["none", "negative"])
async def test_no_limit(server: Harness, limit: int) -> None:
    assert names(await first_page(await filled(server), limit=limit)) == NAMES


async def test_any_version_is_answered_whole(server: Harness) -> None:
    page = await first_page(await filled(server), resource_version="0")
    assert (names(page), page.continue_token) == (NAMES, "")


async def test_what_happens_between_pages_does_not_show(server: Harness) -> None:
    first = await first_page(await filled(server))
    await server.delete(CONFIG_MAP, "c")
    await server.create(CONFIG_MAP, config("bb"))
    await server.update(CONFIG_MAP, config("d", changed="yes"))
    rest = await next_page(server, first, limit=0)
    assert names(rest) == ["c", "d", "e"]
    assert rest.resource_version == first.resource_version
    assert "changed" not in decoded(rest.items[1])["metadata"]["labels"]


async def test_pages_over_all_namespaces(server: Harness) -> None:
    for namespace, name in itertools.product(("default", "other"), ("a", "b")):
        await server.create(CONFIG_MAP, config(name), namespace=namespace)
    first = await server.page(CONFIG_MAP, ListOptions(limit=3), namespace="")
    assert opened(first.continue_token)["start"] == "other/a\0"
    options = ListOptions(limit=3, continue_token=first.continue_token)
    assert names(await server.page(CONFIG_MAP, options, namespace="")) == ["b"]


async def test_selected_page_is_filled_without_remaining_count(server: Harness) -> None:
    first = await first_page(await filled(server), labels="parity=even")
    assert (names(first), first.remaining) == (["a", "c"], None)
    second = await next_page(server, first, labels="parity=even")
    assert (names(second), second.continue_token) == (["e"], "")


async def test_a_selected_page_may_be_followed_by_an_empty_one(server: Harness) -> None:
    """As upstream: there are more objects, and only looking at them would tell that none is selected."""
    first = await first_page(await filled(server), labels="parity=odd")
    assert (names(first), bool(first.continue_token)) == (["b", "d"], True)
    assert names(await next_page(server, first, labels="parity=odd")) == []


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({"resource_version_match": "Exact"}, id="said so"),
        pytest.param({"limit": 9}, id="by a limit"),
    ],
)
async def test_the_past_exactly(server: Harness, options: Body) -> None:
    version = (await first_page(await filled(server), limit=0)).resource_version
    await server.delete(CONFIG_MAP, "a")
    page = await server.page(CONFIG_MAP, ListOptions(resource_version=version, **options))
    assert (names(page), page.resource_version) == (NAMES, version)


async def test_not_older_than_the_past_is_the_present(server: Harness) -> None:
    version = (await first_page(await filled(server), limit=0)).resource_version
    await server.delete(CONFIG_MAP, "a")
    options = ListOptions(resource_version=version, resource_version_match="NotOlderThan")
    assert names(await server.page(CONFIG_MAP, options)) == NAMES[1:]


async def test_a_past_that_is_gone(forgetful: Harness) -> None:
    options = ListOptions(resource_version="3", resource_version_match="Exact")
    with pytest.raises(Expired) as refusal:
        await forgetful.page(CONFIG_MAP, options)
    assert refusal.value.message == "The resourceVersion for the provided list is too old."
    assert refusal.value.to_status().metadata == {}


async def test_an_old_token_gives_way_to_one_that_goes_on(forgetful: Harness) -> None:
    first = await first_page(forgetful)
    for name in ("f", "g", "h", "i"):
        await forgetful.create(CONFIG_MAP, config(name))
    with pytest.raises(Expired) as refusal:
        await next_page(forgetful, first)
    assert refusal.value.message.startswith("The provided continue parameter is too old to display a consistent list")
    token = refusal.value.to_status().metadata["continue"]
    assert opened(token) == {"v": "meta.k8s.io/v1", "rv": -1, "start": "b\0"}
    page = await forgetful.page(CONFIG_MAP, ListOptions(limit=3, continue_token=token))
    assert (names(page), page.resource_version) == (["c", "d", "e"], str(forgetful.revision))
    assert names(await next_page(forgetful, page, limit=9)) == ["f", "g", "h", "i"]


async def test_other_kinds_do_not_make_a_token_old(forgetful: Harness) -> None:
    first = await first_page(forgetful)
    for number in range(9):
        await forgetful.create(LEASE, {"metadata": {"name": f"l{number}"}})
    assert names(await next_page(forgetful, first)) == ["c", "d"]


@pytest.mark.parametrize(
    ("token", "why"),
    [
        pytest.param("x", "", id="not encoded"),
        pytest.param("eHl6", "", id="not JSON"),
        pytest.param(closed(v="v2", rv=1, start="a"), ": server does not recognize this encoded version v2", id="form"),
        pytest.param(
            closed(v="meta.k8s.io/v1", rv=0, start="a"),
            ": incorrect encoded start resourceVersion (version meta.k8s.io/v1)",
            id="no version",
        ),
        pytest.param(
            closed(v="meta.k8s.io/v1", rv=1, start=""),
            ": encoded start key empty (version meta.k8s.io/v1)",
            id="no place",
        ),
        pytest.param(closed(v="meta.k8s.io/v1", rv=1, start="../secrets/a"), ": ../secrets/a", id="elsewhere"),
        pytest.param(closed(v="meta.k8s.io/v1", rv=1, start="a//b"), ": a//b", id="not a plain place"),
    ],
)
async def test_invalid_continue_tokens(server: Harness, token: str, why: str) -> None:
    with pytest.raises(BadRequest) as refusal:
        await server.page(CONFIG_MAP, ListOptions(continue_token=token))
    assert refusal.value.message.startswith(f"invalid continue token: continue key is not valid{why}")


async def test_a_token_brings_its_own_version(server: Harness) -> None:
    first = await first_page(await filled(server))
    assert names(await next_page(server, first, resource_version="0")) == ["c", "d"]
    with pytest.raises(BadRequest, match="specifying resource version is not allowed when using continue"):
        await next_page(server, first, resource_version="5")


async def test_a_token_from_the_future_is_waited_for(server: Harness) -> None:
    token = closed(v="meta.k8s.io/v1", rv=10_000, start="a")
    with pytest.raises(ServerTimeout, match="Too large resource version: 10000"):
        await server.page(CONFIG_MAP, ListOptions(continue_token=token))


async def test_a_limited_deletion_says_how_to_go_on(server: Harness) -> None:
    await filled(server)
    target = Target(CONFIG_MAP, "default")
    page = await server.api.delete_collection(TEST_USER, target, ListOptions(limit=2), DeleteOptions())
    assert (names(page), page.remaining) == (["a", "b"], 3)
    assert names(await first_page(server, limit=0)) == ["c", "d", "e"]
    with pytest.raises(NotFound):
        await server.get(CONFIG_MAP, "a")
