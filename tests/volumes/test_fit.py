"""What is estimated for all nodes at once is what the plan for each of them says."""

from hypothesis import given
from hypothesis import strategies as st

from builders import Body, a_capacity, a_claim, a_class, a_driver, a_volume, claim_ref, reachable_from
from builders.volume_worlds import VolumeWorld
from mooring.volumes.fit import NO_VOLUME
from mooring.volumes.shape import exact_size

NODES = {f"n{number}": {"name": f"n{number}", "zone": "ab"[number % 2]} for number in range(12)}
SSD: Body = {"matchLabels": {"medium": "ssd"}}

places = st.one_of(
    st.sampled_from(sorted(NODES)).map(lambda name: reachable_from("name", name)),
    st.sampled_from("ab").map(lambda zone: reachable_from("zone", zone)),
    st.none(),
)
volumes = st.lists(st.tuples(st.integers(1, 9), places, st.sampled_from(("ssd", "hdd"))), max_size=12)


def world_of(claims: list[int], offered: list[tuple[int, Body | None, str]], *, selector: Body | None) -> VolumeWorld:
    return VolumeWorld(
        *(a_claim(name=f"c{i}", size=size, selector=selector) for i, size in enumerate(claims)),
        *(
            a_volume(name=f"v{i:02}", size=size, affinity=place, labels={"medium": medium})
            for i, (size, place, medium) in enumerate(offered)
        ),
        nodes=NODES,
    )


@given(st.lists(st.integers(1, 9), min_size=1, max_size=3), volumes, st.sampled_from((None, SSD)))
def test_claims_that_differ_only_in_size(
    requests: list[int], offered: list[tuple[int, Body | None, str]], selector: Body | None
) -> None:
    world = world_of(requests, offered, selector=selector)
    claims = world.claims(*(f"c{i}" for i in range(len(requests))))

    fits = world.state.fits(claims)

    for node in NODES:
        slot = world.topology.slot(node)
        matched = [volume for _, volume in world.state.matches(claims, node)]
        # On a node that is rejected anyway, who goes without does not matter.
        if all(volume is not None for volume in matched):
            planned = sorted(exact_size(volume.size) // 10**9 for volume in matched if volume is not None)
            assert sorted(int(fit.sizes[slot]) for fit in fits) == planned


def test_what_is_reserved_for_a_claim_is_what_it_gets() -> None:
    mine = a_volume(name="mine", size=9, affinity=reachable_from("name", "n3"), claim_ref=claim_ref(name="c"))
    world = VolumeWorld(a_claim(name="c", size=2), mine, a_volume(name="free", size=2), nodes=NODES)

    [fit] = world.state.fits(world.claims("c"))

    assert fit.sizes[world.topology.slot("n3")] == 9
    assert (fit.sizes == NO_VOLUME).sum() == len(NODES) - 1


def test_free_storage_is_told_where_somebody_keeps_count() -> None:
    room = a_capacity(capacity=7, topology={"matchLabels": {"zone": "a"}})
    made = a_class(name="made", provisioner="csi.example.com")
    world = VolumeWorld(made, a_claim(name="c", storage_class="made", size=2), room, nodes=NODES)
    assert world.state.fits(world.claims("c"))[0].free is None

    world.add(a_driver(tracks_capacity=True))

    [fit] = world.state.fits(world.claims("c"))
    assert fit.free is not None
    assert fit.free.tolist() == [7, 0] * 6
