"""Too many volumes, said for all nodes at once, is what the plan for each of them says."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders import a_claim, a_class, a_csi_node, a_pod, a_volume, claim_ref
from builders.drivers import DRIVER
from builders.volume_worlds import VolumeWorld
from mooring.api import keys
from mooring.api.views.meta import ApiObject
from mooring.volumes.in_tree import Identity, identity_of

pytestmark = [pytest.mark.req("T23"), pytest.mark.level("u")]

OTHER = "other.example.com"
NODES = {name: {keys.HOSTNAME: name} for name in ("n1", "n2", "n3")}
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
    wanted: list[str],
    users: list[tuple[str, int]],
    limited: dict[str, dict[str, int]],
) -> None:
    world = VolumeWorld(*CLASSES, nodes=NODES)
    for number, (storage_class, driver, node) in enumerate(offered):
        world.add(driver_volume(f"free-{number}", driver, storage_class=storage_class, node=node))
    for number in range(3):
        name = f"used-{number}"
        world.add(a_claim(name=name, volume=name, bound=True, storage_class="late"))
        reference = claim_ref(name=name, uid=f"{name}-uid")
        world.add(driver_volume(name, DRIVER, storage_class="late", phase="Bound", claim_ref=reference))
    on: dict[str, set[Identity]] = {name: set() for name in NODES}
    for number, (node, used) in enumerate(users):
        world.state.pod_came(a_pod(name=f"p{number}", claims=[f"used-{used}"]), node)
        on[node].add(Identity(DRIVER, f"used-{used}"))
    for node, of_drivers in limited.items():
        world.add(a_csi_node(name=node, limits=of_drivers))
    names = []
    for number, storage_class in enumerate(wanted):
        if storage_class == "bound":
            names.append(f"used-{number}")
        else:
            names.append(f"c{number}")
            world.add(a_claim(name=f"c{number}", storage_class=storage_class))
    pod = a_pod(name="new", claims=names)
    found = world.claims(*names)

    over = set(world.topology.names(world.state.over_limit(pod, found)))

    refused = {node for nodes, _ in world.state.rejections(found) for node in world.topology.names(nodes)}
    for node in set(NODES) - refused:
        plan = world.state.plan(found, node)
        coming = {Identity(DRIVER, claim.spec.volume_name) for claim in found.bound}
        coming |= {identity for one in plan.static if (identity := identity_of(one.volume)) is not None}
        for wish in plan.provision:
            coming.add(Identity(DRIVER if wish.claim.storage_class == "late" else OTHER, f"new {wish.claim.name}"))
        new = coming - on[node]
        too_many = any(
            any(one.driver == driver for one in new) and sum(one.driver == driver for one in on[node] | coming) > limit
            for driver, limit in limited.get(node, {}).items()
        )
        assert (node in over) is too_many, node
