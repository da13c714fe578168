import pytest

from mooring.api.views.meta import Meta
from mooring.api.views.pods import Pod
from mooring.client.cache import Cache, MissedEvents, StaleListing
from mooring.client.contract import ObjectList, WatchEvent, WatchEventType
from support.builders import a_pod

Changes = list[tuple[str, str]]


def shown(pod: Pod | None) -> str:
    return f"{pod.name}@{pod.metadata.resource_version}" if pod is not None else "-"


def at(version: str) -> Pod:
    """What a bookmark carries: a version and nothing else."""
    return Pod(metadata=Meta(resource_version=version))


class Watched:
    """A cache and what it delivered, as `name@version` or `-` for absent."""

    def __init__(self) -> None:
        self.delivered: Changes = []
        self.cache: Cache[Pod] = Cache(lambda before, after: self.delivered.append((shown(before), shown(after))))

    def listing(self, version: int, *pods: Pod) -> Changes:
        self.delivered.clear()
        list(self.cache.replace(ObjectList(pods, str(version))))
        return list(self.delivered)

    def event(self, change: WatchEventType, pod: Pod) -> Changes:
        self.delivered.clear()
        self.cache.apply(WatchEvent(change, pod))
        return list(self.delivered)


@pytest.fixture
def watched() -> Watched:
    """Holds a@3 and b@5, and has seen everything up to 10."""
    watched = Watched()
    watched.listing(10, a_pod(name="a", version="3"), a_pod(name="b", version="5"))
    return watched


def test_a_first_listing_adds_everything_in_its_order() -> None:
    delivered = Watched().listing(10, a_pod(name="b", version="5"), a_pod(name="a", version="3"))
    assert delivered == [("-", "b@5"), ("-", "a@3")]


@pytest.mark.parametrize(
    ("pods", "want"),
    [
        pytest.param([a_pod(name="a", version="3"), a_pod(name="b", version="5")], [], id="the same"),
        pytest.param([], [("a@3", "-"), ("b@5", "-")], id="all deleted meanwhile"),
        pytest.param(
            [a_pod(name="a", version="3"), a_pod(name="b", version="12"), a_pod(name="c", version="11")],
            [("b@5", "b@12"), ("-", "c@11")],
            id="one changed, one new",
        ),
        pytest.param(
            [a_pod(name="a", version="3"), a_pod(name="b", version="12", uid="another")],
            [("b@5", "-"), ("-", "b@12")],
            id="deleted and made again",
        ),
        pytest.param(
            [a_pod(name="a", version="2"), a_pod(name="b", version="5")], [], id="an object listed at an older version"
        ),
    ],
)
def test_a_later_listing_tells_the_differences_only(watched: Watched, pods: list[Pod], want: Changes) -> None:
    assert watched.listing(20, *pods) == want
    assert watched.cache.seen == 20


def test_versions_are_numbers_not_texts() -> None:
    watched = Watched()
    watched.listing(9, a_pod(name="a", version="9"))
    assert watched.event(WatchEventType.MODIFIED, a_pod(name="a", version="10")) == [("a@9", "a@10")]


def test_a_listing_older_than_what_was_seen_is_refused_and_changes_nothing(watched: Watched) -> None:
    with pytest.raises(StaleListing, match="listed version 9 after it had shown 10"):
        watched.listing(9)
    assert [shown(pod) for pod in watched.cache.items()] == ["a@3", "b@5"]


@pytest.mark.parametrize(
    ("change", "pod", "want"),
    [
        pytest.param(WatchEventType.ADDED, a_pod(name="c", version="11"), [("-", "c@11")], id="added"),
        pytest.param(WatchEventType.MODIFIED, a_pod(name="a", version="11"), [("a@3", "a@11")], id="modified"),
        pytest.param(WatchEventType.DELETED, a_pod(name="a", version="11"), [("a@3", "-")], id="deleted"),
        pytest.param(
            WatchEventType.MODIFIED, a_pod(name="c", version="11"), [("-", "c@11")], id="modified, never seen"
        ),
        pytest.param(WatchEventType.ADDED, a_pod(name="a", version="11"), [("a@3", "a@11")], id="added, known"),
        pytest.param(WatchEventType.DELETED, a_pod(name="c", version="11"), [], id="deleted, never seen"),
        pytest.param(
            WatchEventType.ADDED, a_pod(name="a", version="11", uid="x"), [("a@3", "-"), ("-", "a@11")], id="made again"
        ),
        pytest.param(WatchEventType.BOOKMARK, at("11"), [], id="bookmark"),
    ],
)
def test_news_happens_and_moves_the_version_on(
    watched: Watched, change: WatchEventType, pod: Pod, want: Changes
) -> None:
    assert watched.event(change, pod) == want
    assert watched.cache.seen == 11


@pytest.mark.parametrize(
    ("change", "pod"),
    [
        pytest.param(WatchEventType.MODIFIED, a_pod(name="b", version="5"), id="a repeated change"),
        pytest.param(WatchEventType.MODIFIED, a_pod(name="b", version="4"), id="a change before the one held"),
        pytest.param(
            WatchEventType.DELETED, a_pod(name="b", version="4"), id="the deletion of an earlier object of the name"
        ),
        pytest.param(WatchEventType.DELETED, a_pod(name="gone", version="9"), id="a repeated deletion"),
        pytest.param(WatchEventType.BOOKMARK, at("9"), id="a late bookmark"),
    ],
)
def test_old_news_that_agrees_changes_nothing(watched: Watched, change: WatchEventType, pod: Pod) -> None:
    assert watched.event(change, pod) == []
    assert watched.cache.seen == 10


@pytest.mark.parametrize(
    ("change", "pod"),
    [
        pytest.param(WatchEventType.MODIFIED, a_pod(name="b", version="8"), id="a change that was missed"),
        pytest.param(WatchEventType.ADDED, a_pod(name="c", version="8"), id="an addition that was missed or undone"),
        pytest.param(WatchEventType.DELETED, a_pod(name="b", version="8"), id="a deletion that was missed"),
    ],
)
def test_old_news_that_does_not_agree_means_something_was_missed(
    watched: Watched, change: WatchEventType, pod: Pod
) -> None:
    with pytest.raises(MissedEvents):
        watched.event(change, pod)
    assert watched.delivered == []
    assert [shown(pod) for pod in watched.cache.items()] == ["a@3", "b@5"]


def by_node(pod: Pod) -> tuple[str, ...]:
    return (pod.spec.node_name,) if pod.spec.node_name else ()


def by_label(pod: Pod) -> list[str]:
    return [*pod.metadata.labels.values(), *pod.metadata.labels.values()]


def names(cache: Cache[Pod], index: str, value: str) -> list[str]:
    return [pod.name for pod in cache.by_index(index, value)]


def test_an_index_follows_every_change(watched: Watched) -> None:
    cache = watched.cache
    cache.add_index("node", by_node)
    assert names(cache, "node", "n1") == []
    watched.event(WatchEventType.MODIFIED, a_pod(name="a", version="11", node="n1"))
    watched.event(WatchEventType.ADDED, a_pod(name="c", version="12", node="n1"))
    assert names(cache, "node", "n1") == ["a", "c"]
    watched.event(WatchEventType.MODIFIED, a_pod(name="a", version="13", node="n2"))
    watched.event(WatchEventType.DELETED, a_pod(name="c", version="14", node="n1"))
    assert names(cache, "node", "n1") == []
    assert names(cache, "node", "n2") == ["a"]


def test_an_index_added_late_files_what_is_there(watched: Watched) -> None:
    watched.event(WatchEventType.MODIFIED, a_pod(name="a", version="11", node="n1"))
    watched.cache.add_index("node", by_node)
    assert names(watched.cache, "node", "n1") == ["a"]


def test_an_index_that_names_a_value_twice_files_once_and_removes_whole(watched: Watched) -> None:
    watched.cache.add_index("label", by_label)
    watched.event(WatchEventType.ADDED, a_pod(name="c", version="11", labels={"x": "v"}))
    assert names(watched.cache, "label", "v") == ["c"]
    watched.event(WatchEventType.DELETED, a_pod(name="c", version="12"))
    assert names(watched.cache, "label", "v") == []


def test_an_index_is_current_when_the_handler_gets_its_change() -> None:
    seen: list[list[str]] = []
    cache: Cache[Pod] = Cache(lambda _before, _after: seen.append(names(cache, "node", "n1")))
    cache.add_index("node", by_node)
    list(cache.replace(ObjectList((a_pod(name="a", node="n1"), a_pod(name="b", node="n1")), "5")))
    assert seen == [["a"], ["a", "b"]]


def test_one_index_name_stands_for_one_function(watched: Watched) -> None:
    watched.cache.add_index("node", by_node)
    watched.cache.add_index("node", by_node)
    with pytest.raises(ValueError, match="exists with another function"):
        watched.cache.add_index("node", by_label)
    with pytest.raises(KeyError):
        watched.cache.by_index("never-added", "x")
