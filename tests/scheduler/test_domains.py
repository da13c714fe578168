from hypothesis import given
from hypothesis import strategies as st

from mooring.scheduler.domains import Domains
from mooring.volumes import nodeset

LABELS = st.dictionaries(st.sampled_from(["zone", "host"]), st.sampled_from(["a", "b", "c"]))
#: Slot beyond 64, so that the vectors grow; None takes a node away.
STEPS = st.lists(st.tuples(st.sampled_from([0, 1, 2, 70, 200]), st.none() | LABELS), max_size=12)


def test_nodes_without_the_label_are_near_nobody() -> None:
    domains = Domains()
    domains.put(0, {"zone": "a"})
    domains.put(1, {})
    domains.put(2, {"zone": "a"})

    assert domains.sharing("zone", nodeset.of([0])) == nodeset.of([0, 2])
    assert domains.sharing("zone", nodeset.of([1])) == nodeset.EMPTY
    assert domains.having("zone") == nodeset.of([0, 2])


def test_counts_are_summed_over_the_domain() -> None:
    domains = Domains()
    for slot, zone in enumerate("aab"):
        domains.put(slot, {"zone": zone})
    domains.put(3, {})

    assert domains.summed("zone", {0: 2, 2: 5, 3: 7}, 5).tolist() == [2, 2, 5, 0, 0]


def test_a_key_nobody_has_is_an_empty_domain() -> None:
    domains = Domains()
    domains.put(100, {})

    assert domains.having("rack") == nodeset.EMPTY
    assert domains.sharing("rack", nodeset.of([100])) == nodeset.EMPTY


def test_odd_keys_do_not_pile_up() -> None:
    domains = Domains()
    domains.put(0, {f"key-{number}": "x" for number in range(200)})

    assert all(domains.having(f"key-{number}") == 1 for number in range(200))
    assert domains.having("key-0") == 1


@given(steps=STEPS, late=st.booleans())
def test_kept_current_equals_asked_later(steps: list[tuple[int, dict[str, str] | None]], late: bool) -> None:
    """However nodes came and went, domains are what the labels say; also for a key asked about before the changes."""
    domains = Domains()
    if not late:
        domains.having("zone")
    labels: dict[int, dict[str, str]] = {}
    for slot, now in steps:
        if now is None:
            labels.pop(slot, None)
            domains.remove(slot)
        else:
            labels[slot] = now
            domains.put(slot, now)

    zones = {slot: own["zone"] for slot, own in labels.items() if "zone" in own}
    assert domains.having("zone") == nodeset.of(zones)
    for slot in labels:
        near = [other for other, zone in zones.items() if zone == zones.get(slot)]
        assert domains.sharing("zone", nodeset.of([slot])) == nodeset.of(near)
