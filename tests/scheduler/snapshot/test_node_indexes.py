import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from mooring.scheduler.snapshot.node_indexes import TopologyDomains
from mooring.volumes import topology
from mooring.volumes.topology import TopologyIndex

LABELS = st.dictionaries(st.sampled_from(["zone", "host"]), st.sampled_from(["a", "b", "c"]))
#: Nodes beyond slot 64, so that the vectors grow; None takes a node away.
STEPS = st.lists(st.tuples(st.sampled_from([0, 1, 2, 70, 200]), st.none() | LABELS), max_size=12)


def nodes_with(*labels: dict[str, str]) -> TopologyIndex:
    """The node `n<slot>` in each slot."""
    nodes = TopologyIndex()
    for slot, own in enumerate(labels):
        nodes.put(f"n{slot}", own)
    return nodes


def test_nodes_without_the_label_are_in_no_domain() -> None:
    nodes = nodes_with({"zone": "a"}, {}, {"zone": "a"})
    domains = TopologyDomains(nodes)

    assert nodes.having("zone") == topology.node_set_of([0, 2])
    assert domains.sharing("zone", topology.node_set_of([0])) == topology.node_set_of([0, 2])
    assert domains.sharing("zone", topology.node_set_of([1])) == topology.EMPTY


def test_counts_are_summed_over_the_domain() -> None:
    domains = TopologyDomains(nodes_with({"zone": "a"}, {"zone": "a"}, {"zone": "b"}, {}))

    assert domains.summed("zone", np.array([2.0, 0, 5, 7, 0])).tolist() == [2, 2, 5, 0, 0]


def test_key_no_node_has_is_an_empty_domain() -> None:
    nodes = nodes_with(*[{}] * 101)
    domains = TopologyDomains(nodes)

    assert nodes.having("rack") == topology.EMPTY
    assert domains.sharing("rack", topology.node_set_of([100])) == topology.EMPTY


def test_odd_keys_do_not_pile_up() -> None:
    domains = TopologyDomains(nodes_with({f"key-{number}": "x" for number in range(200)}))

    assert all(domains.sharing(f"key-{number}", 1) == 1 for number in range(200))
    assert domains.sharing("key-0", 1) == 1


@given(steps=STEPS, late=st.booleans())
def test_kept_current_equals_asked_later(steps: list[tuple[int, dict[str, str] | None]], late: bool) -> None:
    """However nodes came and went, domains are what the labels say; also for a key asked about before the changes."""
    nodes = nodes_with(*[{}] * 201)
    domains = TopologyDomains(nodes)
    if not late:
        domains.sharing("zone", 1)
    labels: dict[str, dict[str, str]] = {}
    for number, now in steps:
        name = f"n{number}"
        if now is None:
            labels.pop(name, None)
            nodes.remove(name)
        else:
            labels[name] = now
            nodes.put(name, now)

    zones = {name: own["zone"] for name, own in labels.items() if "zone" in own}
    assert set(nodes.names(nodes.having("zone"))) == zones.keys()
    for name in labels:
        near = {other for other, zone in zones.items() if zone == zones.get(name)}
        assert set(nodes.names(domains.sharing("zone", nodes.named(name)))) == near
