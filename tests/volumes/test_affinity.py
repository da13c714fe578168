"""The watch may name too many affinities, but never misses one whose nodes changed."""

from hypothesis import given
from hypothesis import strategies as st

from builders import a_volume, reachable_from
from mooring.api import node_selector
from mooring.api.views.meta import NodeSelectorTermView, SelectorRequirement
from mooring.volumes.affinity import Affinity, AffinityWatch, affinity
from mooring.volumes.topology import NodeChange, TopologyIndex

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
affinities: st.SearchStrategy[Affinity] = st.none() | st.lists(terms, max_size=2).map(node_selector.from_view)


@given(
    st.lists(affinities, min_size=1, max_size=5),
    st.lists(st.tuples(st.sampled_from(("a", "b", "c")), st.none() | labels), max_size=8),
)
def test_every_affinity_whose_nodes_change_is_touched(
    watched: list[Affinity], history: list[tuple[str, dict[str, str] | None]]
) -> None:
    topology, watch = TopologyIndex(), AffinityWatch()
    touched: set[Affinity] = set()

    def hear(change: NodeChange) -> None:
        touched.update(watch.touched(change))

    topology.follow(hear)
    for one in watched:
        watch.add(one)
    for name, given_labels in history:
        before = {one: topology.matching(one) for one in watched}
        touched.clear()
        if given_labels is None:
            topology.remove(name)
        else:
            topology.put(name, given_labels)
        changed = {one for one in watched if topology.matching(one) != before[one]}
        assert changed <= touched <= set(watched)


def test_an_affinity_is_watched_as_often_as_it_was_added() -> None:
    watch = AffinityWatch()
    local = affinity(a_volume(affinity=reachable_from("zone", "a")))
    change = NodeChange("node", None, {"zone": "a"})
    watch.add(local)
    watch.add(local)

    watch.discard(local)
    assert watch.touched(change) == {local}
    watch.discard(local)
    assert watch.touched(change) == set()


def test_a_node_of_another_zone_touches_nothing() -> None:
    watch = AffinityWatch()
    watch.add(affinity(a_volume(affinity=reachable_from("zone", "a"))))

    assert watch.touched(NodeChange("node", None, {"zone": "b", "rack": "1"})) == set()


def test_equal_affinities_are_one_object() -> None:
    one, other = a_volume(name="one", node="n"), a_volume(name="other", node="n")

    assert affinity(one) is affinity(other)
    assert affinity(a_volume()) is None
