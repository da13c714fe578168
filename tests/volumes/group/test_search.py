"""The joint decision without a scheduler: volumes alone."""

from collections.abc import Sequence

import pytest

from mooring.api.views.meta import ApiObject
from mooring.api.views.pods import Pod
from mooring.volumes.group import (
    GroupDomain,
    GroupPlan,
    GroupRefusal,
    GroupSearch,
    VolumePlacements,
    certificate_lines,
    group_problem,
)
from support.builders.claims import a_claim
from support.builders.drivers import DRIVER, a_capacity, a_csi_node, a_driver
from support.builders.pods import a_pod
from support.builders.volume_library import VolumeLibrary
from support.builders.volumes import a_volume

pytestmark = pytest.mark.req("G1.decided")


def members(
    number: int, *, claims: Sequence[str] = ("local",), shared: Sequence[str] = ()
) -> tuple[list[Pod], list[ApiObject]]:
    pods: list[Pod] = []
    made: list[ApiObject] = []
    for member in range(number):
        names = [f"c-{member}-{index}" for index in range(len(claims))]
        made += [
            a_claim(name=name, storage_class=storage_class, uid=f"uid-{name}")
            for name, storage_class in zip(names, claims, strict=True)
        ]
        pods.append(a_pod(name=f"g-{member}", uid=f"uid-{member}", claims=[*names, *shared]))
    return pods, made


def decide(library: VolumeLibrary, pods: Sequence[Pod], min_count: int) -> GroupPlan | GroupRefusal:
    problem = group_problem(library.state, pods, min_count=min_count)
    placements = VolumePlacements(library.state, library.topology)
    search = GroupSearch(problem, placements, [GroupDomain("", library.topology.all)])
    while not search.step():
        pass
    assert search.result is not None
    return search.result


def test_members_get_volumes_of_their_own() -> None:
    pods, claims = members(2)
    library = VolumeLibrary(*claims, a_volume(name="v1", node="n1"), a_volume(name="v2", node="n2"))
    result = decide(library, pods, 2)
    assert isinstance(result, GroupPlan)
    assert {member.node for member in result.members.values()} == {"n1", "n2"}
    assert result.late_claims == 2


def test_refusal_gives_everything_back() -> None:
    pods, claims = members(3)
    library = VolumeLibrary(*claims, a_volume(name="v1", node="n1"), a_volume(name="v2", node="n2"))
    result = decide(library, pods, 3)
    assert isinstance(result, GroupRefusal)
    assert certificate_lines(result) == ["class local: 3 volumes requested, 2 free: n1: 1, n2: 1"]
    assert decide(library, pods, 2).looks


def test_members_stay_on_nodes_that_the_caller_allows() -> None:
    pods, claims = members(2)
    library = VolumeLibrary(*claims, *(a_volume(name=f"v{n}-{i}", node=f"n{n}") for n in (1, 2) for i in range(2)))
    taken: list[str] = []
    problem = group_problem(library.state, pods, min_count=2)

    def nodes_for(pod: Pod) -> int:
        return library.topology.all & ~library.topology.named("n2")

    placements = VolumePlacements(library.state, library.topology, nodes_for=nodes_for)
    search = GroupSearch(problem, placements, [GroupDomain("", library.topology.all)])
    while not search.step():
        pass
    assert isinstance(search.result, GroupPlan)
    taken += [member.node for member in search.result.members.values()]
    assert taken == ["n1", "n1"]


@pytest.mark.req("G1.shared")
def test_reserved_volume_of_a_shared_claim_decides_where_users_go() -> None:
    pods, _ = members(2, claims=(), shared=["data"])
    data = a_claim(name="data", access_modes=["ReadWriteMany"], uid="uid-data")
    volume = a_volume(
        name="v2", node="n2", access_modes=["ReadWriteMany"], claim_ref={"namespace": "default", "name": "data"}
    )
    other = a_volume(name="v1", node="n1", access_modes=["ReadWriteMany"])
    result = decide(VolumeLibrary(data, volume, other), pods, 2)
    assert isinstance(result, GroupPlan)
    assert {member.node for member in result.members.values()} == {"n2"}
    assert result.shared[0].plan.static[0].volume.name == "v2"


@pytest.mark.req("G1.shared")
def test_shared_claim_with_a_selected_node_stays_there() -> None:
    pods, _ = members(2, claims=(), shared=["data"])
    data = a_claim(
        name="data", storage_class="made", access_modes=["ReadWriteMany"], selected_node="n1", uid="uid-data"
    )
    keys = {DRIVER: ["kubernetes.io/hostname"]}
    nodes = [a_csi_node(name=name, limits={DRIVER: None}, topology_keys=keys) for name in ("n1", "n2")]
    result = decide(VolumeLibrary(data, *nodes), pods, 2)
    assert isinstance(result, GroupPlan)
    assert {member.node for member in result.members.values()} == {"n1"}
    assert result.shared[0].plan.node == "n1"


@pytest.mark.req("G1.certificate")
@pytest.mark.parametrize(
    ("objects", "lines"),
    [
        (
            [a_driver(name=DRIVER, tracks_capacity=True), a_capacity(topology={}, capacity="12Gi", largest="12Gi")],
            ["class made: 3 volumes of 5Gi: n1 12Gi: 2"],
        ),
        (
            [a_csi_node(name="n1", limits={DRIVER: 1}), a_csi_node(name="n2", limits={DRIVER: 0})],
            [f"driver {DRIVER}: 3 volumes requested, nodes take 1 more: n1: 1, n2: 0"],
        ),
    ],
    ids=["capacity", "limit"],
)
def test_certificate_names_what_is_missing(objects: Sequence[ApiObject], lines: Sequence[str]) -> None:
    pods, claims = members(3, claims=("made",))
    result = decide(VolumeLibrary(*claims, *objects), pods, 3)
    assert isinstance(result, GroupRefusal)
    assert certificate_lines(result) == lines
