"""Too many volumes is said of a node where no choice among the volumes would do, which trying everything finds too."""

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.api import well_known
from mooring.api.views.meta import ApiObject
from mooring.api.views.storage import Claim
from mooring.volumes.in_tree import VolumeIdentity, identity_of
from support.builders import a_claim, a_class, a_csi_node, a_pod, a_volume, claim_ref
from support.builders.drivers import DRIVER
from support.builders.volume_library import VolumeLibrary

pytestmark = [pytest.mark.req("T23.choice"), pytest.mark.level("u")]

OTHER = "other.example.com"
NODES = {name: {well_known.HOSTNAME: name} for name in ("n1", "n2", "n3")}
CLASSES = (a_class(name="static"), a_class(name="late", provisioner=DRIVER), a_class(name="foreign", provisioner=OTHER))

drivers = st.sampled_from(("", DRIVER, OTHER))
free_volumes = st.lists(
    st.tuples(st.sampled_from(("static", "late", "foreign")), drivers, st.sampled_from(sorted(NODES))), max_size=8
)
claims = st.lists(st.sampled_from(("static", "late", "foreign", "bound")), min_size=1, max_size=3)
existing = st.lists(st.tuples(st.sampled_from(sorted(NODES)), st.integers(0, 2)), max_size=5)
limits = st.dictionaries(
    st.sampled_from(sorted(NODES)), st.dictionaries(st.sampled_from((DRIVER, OTHER)), st.integers(0, 3)), min_size=1
)


def driver_volume(name: str, driver: str, **fields: object) -> ApiObject:
    source = {"csi": {"driver": driver, "volumeHandle": name}} if driver else None
    return a_volume(name=name, source=source, **fields)


@given(free_volumes, claims, existing, limits)
def test_all_nodes_at_once_equal_one_by_one(
    offered: list[tuple[str, str, str]],
    expected: list[str],
    users: list[tuple[str, int]],
    limited: dict[str, dict[str, int]],
) -> None:
    library = VolumeLibrary(*CLASSES, nodes=NODES)
    for number, (storage_class, driver, node) in enumerate(offered):
        library.add(driver_volume(f"free-{number}", driver, storage_class=storage_class, node=node))
    for number in range(3):
        name = f"used-{number}"
        library.add(a_claim(name=name, volume=name, bound=True, storage_class="late"))
        reference = claim_ref(name=name, uid=f"{name}-uid")
        library.add(driver_volume(name, DRIVER, storage_class="late", phase="Bound", claim_ref=reference))
    on: dict[str, set[VolumeIdentity]] = {name: set() for name in NODES}
    for number, (node, used) in enumerate(users):
        library.state.add_pod(a_pod(name=f"p{number}", claims=[f"used-{used}"]), node)
        on[node].add(VolumeIdentity(DRIVER, f"used-{used}"))
    for node, of_drivers in limited.items():
        library.add(a_csi_node(name=node, limits=of_drivers))
    names = []
    for number, storage_class in enumerate(expected):
        if storage_class == "bound":
            names.append(f"used-{number}")
        else:
            names.append(f"c{number}")
            library.add(a_claim(name=f"c{number}", storage_class=storage_class))
    pod = a_pod(name="new", claims=names)
    found = library.claims(*names)

    over = set(library.topology.names(library.state.over_limit(pod, found)))

    refused = {node for nodes, _ in library.state.rejections(found) for node in library.topology.names(nodes)}
    volumes = {f"free-{number}": one for number, one in enumerate(offered)}
    bound = {VolumeIdentity(DRIVER, claim.spec.volume_name) for claim in found.bound}
    for node in set(NODES) - refused:
        ways = list(choices([needs.claim for needs in found.unbound], node, volumes))
        fitting = [way for way in ways if not too_many(bound | way, on[node], limited.get(node, {}))]
        assert (node in over) is (not fitting), node
        if fitting:
            plan = library.state.plan(found, node)
            given = {identity for one in plan.static if (identity := identity_of(one.volume)) is not None}
            made = {VolumeIdentity(MAKERS[one.claim.storage_class], f"new {one.claim.name}") for one in plan.provision}
            assert not too_many(bound | given | made, on[node], limited.get(node, {})), node


MAKERS = {"late": DRIVER, "foreign": OTHER}


def choices(
    claims: Sequence[Claim], node: str, volumes: Mapping[str, tuple[str, str, str]]
) -> Iterator[frozenset[VolumeIdentity]]:
    """What claims may come to have on a node, trying everything: of each volume its class, driver and node."""
    if not claims:
        yield frozenset()
        return
    first, rest = claims[0], claims[1:]
    for name, (storage_class, driver, where) in volumes.items():
        if storage_class == first.storage_class and where == node:
            own = {VolumeIdentity(driver, name)} if driver else set()
            left = {other: volume for other, volume in volumes.items() if other != name}
            yield from (chosen | own for chosen in choices(rest, node, left))
    if first.storage_class in MAKERS:
        new = VolumeIdentity(MAKERS[first.storage_class], f"new {first.name}")
        yield from (chosen | {new} for chosen in choices(rest, node, volumes))


def too_many(
    coming: AbstractSet[VolumeIdentity], there: AbstractSet[VolumeIdentity], limits: Mapping[str, int]
) -> bool:
    new = coming - there
    return any(
        any(one.driver == driver for one in new) and sum(one.driver == driver for one in there | coming) > limit
        for driver, limit in limits.items()
    )


@pytest.mark.parametrize(
    ("sizes", "limit", "over", "given"),
    [
        pytest.param({"csi": "1Gi", "local": "2Gi"}, 0, set(), {"local"}, id="the larger needs no driver"),
        pytest.param({"csi": "1Gi", "local": "2Gi"}, 1, set(), {"csi"}, id="the node takes one: the smaller is best"),
        pytest.param({"csi": "1Gi"}, 0, {"n1"}, None, id="there is no other"),
        pytest.param({"csi": "1Gi", "local": "1"}, 0, {"n1"}, None, id="the other is too small"),
    ],
)
def test_a_volume_that_the_node_takes_is_chosen(
    sizes: dict[str, str], limit: int, over: set[str], given: set[str] | None
) -> None:
    """Judged on the smallest volume alone, a pod would be refused where another volume does."""
    volumes = [
        driver_volume(name, DRIVER if name == "csi" else "", size=size, storage_class="static", node="n1")
        for name, size in sizes.items()
    ]
    library = VolumeLibrary(
        *CLASSES, *volumes, a_csi_node(name="n1", limits={DRIVER: limit}), nodes={"n1": NODES["n1"]}
    )
    library.add(a_claim(name="c", storage_class="static", size="1Gi"))

    found = library.claims("c")
    assert set(library.topology.names(library.state.over_limit(a_pod(claims=["c"]), found))) == over
    if given is not None:
        assert {one.volume.name for one in library.state.plan(found, "n1").static} == given
