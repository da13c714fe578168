"""The watch may name too many affinities, but never misses one whose nodes changed."""

from hypothesis import given
from hypothesis import strategies as st

from mooring.api import node_selectors
from mooring.api.views.meta import NodeSelectorTermView, SelectorRequirement
from mooring.volumes.topology import Affinity, AffinityFollower, TopologyIndex, affinity_of
from support.builders import a_volume, reachable_from

KEYS = ("zone", "rack")
VALUES = ("1", "2", "x")

labels = st.dictionaries(st.sampled_from(KEYS), st.sampled_from(VALUES))
requirements = st.builds(
    SelectorRequirement,
    st.sampled_from(KEYS),
    st.sampled_from(("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")),
    st.lists(st.sampled_from(VALUES), max_size=2).map(tuple),
)
named = SelectorRequirement("metadata.name", "In", ("a",))
terms = st.builds(NodeSelectorTermView, st.lists(requirements, max_size=2).map(tuple), st.sampled_from(((), (named,))))
affinities: st.SearchStrategy[Affinity] = st.none() | st.lists(terms, max_size=2).map(
    node_selectors.node_selector_from_view
)


@given(
    st.lists(affinities, min_size=1, max_size=5),
    st.lists(st.tuples(st.sampled_from(("a", "b", "c")), st.none() | labels), max_size=8),
)
def test_affinity_with_changed_nodes_is_always_reported(
    watched: list[Affinity], history: list[tuple[str, dict[str, str] | None]]
) -> None:
    topology = TopologyIndex()
    follower = AffinityFollower(topology)
    for one in watched:
        follower.add(one)
    for name, given_labels in history:
        before = {one: topology.matching(one) for one in watched}
        if given_labels is None:
            topology.remove(name)
        else:
            topology.put(name, given_labels)
        changed = {one for one in watched if topology.matching(one) != before[one]}
        assert changed <= {affinity for affinity, _ in follower.moved()} <= set(watched)


def test_an_affinity_is_watched_as_often_as_it_was_added() -> None:
    topology = TopologyIndex()
    follower = AffinityFollower(topology)
    local = affinity_of(a_volume(affinity=reachable_from("zone", "a")))
    follower.add(local)
    follower.add(local)

    follower.discard(local)
    topology.put("one", {"zone": "a"})
    assert [affinity for affinity, _ in follower.moved()] == [local]
    follower.discard(local)
    topology.put("two", {"zone": "a"})
    assert follower.moved() == []


def test_a_node_of_another_zone_touches_nothing() -> None:
    topology = TopologyIndex()
    follower = AffinityFollower(topology)
    follower.add(affinity_of(a_volume(affinity=reachable_from("zone", "a"))))

    topology.put("node", {"zone": "b", "rack": "1"})
    assert follower.moved() == []


def test_equal_affinities_are_one_object() -> None:
    one, other = a_volume(name="one", node="n"), a_volume(name="other", node="n")

    assert affinity_of(one) is affinity_of(other)
    assert affinity_of(a_volume()) is None
