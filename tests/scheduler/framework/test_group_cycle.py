"""Joint decisions about groups in a cluster of six nodes; the numbers are those of the acceptance cases."""

from collections import Counter
from collections.abc import Mapping

import pytest

from mooring.api import well_known
from mooring.api.views.meta import ApiObject
from mooring.scheduler.framework.cycle import fit_error
from mooring.scheduler.framework.group_cycle import rejected_decisions
from mooring.volumes.group import GroupPlan, RefusalCode, ShortageCode
from support.builders.claims import a_claim
from support.builders.classes import a_class
from support.builders.drivers import a_capacity
from support.builders.objects import Body
from support.builders.pods import a_pod
from support.builders.volumes import a_volume, reachable_from
from support.scheduler.groups import (
    NET_DRIVER,
    NODE_DRIVER,
    RACK,
    Gi,
    GroupCluster,
    a_gang,
    cluster_objects,
    local_volume,
    node_capacity,
    nodes_of,
    refused,
    volumes_of,
    zonal_volume,
    zone_capacity,
)

pytestmark = pytest.mark.req("G1.decided")

RWX = ("ReadWriteMany",)


def reserved(cluster: GroupCluster) -> int:
    """What the volume library has promised and the snapshot has assumed."""
    return len(cluster.snapshot.volumes.assumed_nodes()) + len(cluster.snapshot.pod_keys)


# --- Existing volumes


def test_members_get_a_local_volume_each() -> None:
    """G13."""
    pods, claims = a_gang(3, claims=[("local", "5Gi")])
    volumes = [local_volume(f"pv-{node}", node) for node in ("n1", "n2", "n3")]
    result = GroupCluster(*cluster_objects(), *volumes, *claims).decide(pods, 3)
    assert sorted(nodes_of(result).values()) == ["n1", "n2", "n3"]
    assert sorted(volumes_of(result).values()) == ["pv-n1", "pv-n2", "pv-n3"]


@pytest.mark.req("G1.certificate")
def test_group_is_refused_when_volumes_are_missing() -> None:
    """G14."""
    pods, claims = a_gang(3, claims=[("local", "5Gi")])
    volumes = [local_volume(f"pv-{node}", node) for node in ("n1", "n2")]
    cluster = GroupCluster(*cluster_objects(), *volumes, *claims)
    refusal = refused(cluster.decide(pods, 3))
    assert (refusal.code, refusal.exact) == (RefusalCode.SHORT, True)
    assert refusal.message == "minCount (3) cannot be satisfied: 2 scheduled, 0 remaining"
    [domain] = refusal.certificate
    assert (domain.domain, domain.members, domain.needed) == ("", 2, 3)
    shortage = domain.shortages[0]
    assert (shortage.code, shortage.subject, shortage.requested, shortage.available) == (
        ShortageCode.VOLUMES,
        "local",
        3,
        2,
    )
    assert refusal.classes == {"local"}
    assert reserved(cluster) == 0


@pytest.mark.parametrize("sizes", [("5Gi", "8Gi"), ("8Gi", "5Gi")], ids=["small first", "large first"])
def test_large_claim_gets_the_large_volume(sizes: tuple[str, str]) -> None:
    """G15: nodes have resources for one member each."""
    small, small_claims = a_gang(1, claims=[("local", sizes[0])], cpu="5", prefix="a")
    large, large_claims = a_gang(1, claims=[("local", sizes[1])], cpu="5", prefix="b")
    volumes = [local_volume("pv-x", "n1", "10Gi"), local_volume("pv-y", "n2", "6Gi")]
    cluster = GroupCluster(*cluster_objects(), *volumes, *small_claims, *large_claims)
    result = cluster.decide([*small, *large], 2)
    by_size = {"5Gi": "pv-y", "8Gi": "pv-x"}
    assert volumes_of(result) == {"c-a-0-0": by_size[sizes[0]], "c-b-0-0": by_size[sizes[1]]}


def test_members_with_two_claims_share_a_node() -> None:
    """G16."""
    pods, claims = a_gang(2, claims=[("local", "5Gi"), ("local", "5Gi")])
    volumes = [local_volume(f"pv-{number}", "n1") for number in range(4)]
    volumes += [local_volume("pv-n2", "n2"), local_volume("pv-n3", "n3")]
    result = GroupCluster(*cluster_objects(), *volumes, *claims).decide(pods, 2)
    assert nodes_of(result) == {"g-0": "n1", "g-1": "n1"}
    assert len(set(volumes_of(result).values())) == 4


@pytest.mark.req("G1.certificate")
def test_single_volumes_on_two_nodes_are_no_place_for_a_member() -> None:
    """G17."""
    pods, claims = a_gang(2, claims=[("local", "5Gi"), ("local", "5Gi")])
    volumes = [local_volume(f"pv-{number}", "n1") for number in range(3)] + [local_volume("pv-n2", "n2")]
    refusal = refused(GroupCluster(*cluster_objects(), *volumes, *claims).decide(pods, 2))
    assert refusal.exact
    shortage = refusal.certificate[0].shortages[0]
    assert [(place.name, place.members) for place in shortage.places] == [("n1", 1), ("n2", 0)]


def test_zonal_volumes_put_members_in_their_zones() -> None:
    """G19."""
    pods, claims = a_gang(4, claims=[("local", "5Gi")])
    volumes = [zonal_volume(f"pv-{zone}-{number}", zone) for zone in "ab" for number in range(2)]
    result = GroupCluster(*cluster_objects(), *volumes, *claims).decide(pods, 4)
    zones = Counter(
        "a" if node in ("n1", "n2") else "b" if node in ("n3", "n4") else "c" for node in nodes_of(result).values()
    )
    assert zones == {"a": 2, "b": 2}


@pytest.mark.req("G1.certificate")
def test_no_zone_has_volumes_for_all() -> None:
    """G20."""
    pods, claims = a_gang(3, claims=[("local", "5Gi")])
    volumes = [zonal_volume(f"pv-{zone}-{number}", zone) for zone in "ab" for number in range(2)]
    cluster = GroupCluster(*cluster_objects(), *volumes, *claims)
    refusal = refused(cluster.decide(pods, 3, topology_key=well_known.ZONE))
    assert refusal.exact
    assert {one.domain: one.members for one in refusal.certificate} == {"a": 2, "b": 2, "c": 0}
    assert refusal.domains == {"a", "b", "c"}


def test_existing_csi_volumes_count_against_limits() -> None:
    """G21."""
    pods, claims = a_gang(3, claims=[("local", "5Gi")])
    source = {"csi": {"driver": NET_DRIVER, "volumeHandle": "h"}}
    volumes = [
        a_volume(
            name=f"pv-{number}",
            affinity=reachable_from(well_known.HOSTNAME, "n1", "n2"),
            source={"csi": {**source["csi"], "volumeHandle": f"h{number}"}},
        )
        for number in range(3)
    ]
    cluster = GroupCluster(*cluster_objects(limits={"n1": {NET_DRIVER: 2}, "n2": {NET_DRIVER: 1}}), *volumes, *claims)
    assert Counter(nodes_of(cluster.decide(pods, 3)).values()) == {"n1": 2, "n2": 1}


# --- Volumes to be provisioned


def provisioned(figures: Mapping[str, str]) -> list[ApiObject]:
    return [node_capacity(node, amount) for node, amount in figures.items()]


@pytest.mark.parametrize(
    ("figures", "expected"),
    [
        ({"n1": "150Gi", "n2": "110Gi", "n3": "110Gi"}, {"n1": 1, "n2": 1, "n3": 1}),
        ({"n1": "200Gi", "n2": "110Gi"}, {"n1": 2, "n2": 1}),
    ],
    ids=["G22 one each", "G23 two on the larger"],
)
def test_capacity_is_promised_once(figures: Mapping[str, str], expected: Mapping[str, int]) -> None:
    pods, claims = a_gang(3, claims=[("node", "100Gi")])
    result = GroupCluster(*cluster_objects(), *provisioned(figures), *claims).decide(pods, 3)
    assert Counter(nodes_of(result).values()) == expected


@pytest.mark.req("G1.certificate")
def test_refusal_names_the_capacity_of_each_node() -> None:
    """G24."""
    pods, claims = a_gang(3, claims=[("node", "100Gi")])
    figures = {"n1": "150Gi", "n2": "110Gi", "n3": "50Gi"}
    cluster = GroupCluster(*cluster_objects(), *provisioned(figures), *claims)
    refusal = refused(cluster.decide(pods, 3))
    shortage = refusal.certificate[0].shortages[0]
    assert (shortage.code, shortage.subject, shortage.size) == (ShortageCode.CAPACITY, "node", 100 * Gi)
    assert (shortage.requested, shortage.available, shortage.members) == (3, 2, 2)
    assert [(one.name, one.amount // Gi, one.members) for one in shortage.places] == [
        ("n1", 150, 1),
        ("n2", 110, 1),
        ("n3", 50, 0),
    ]
    assert reserved(cluster) == 0


def test_quorum_is_placed_without_an_extra() -> None:
    """G25."""
    pods, claims = a_gang(3, claims=[("node", "100Gi")])
    figures = {"n1": "150Gi", "n2": "110Gi", "n3": "50Gi"}
    result = GroupCluster(*cluster_objects(), *provisioned(figures), *claims).decide(pods, 2)
    assert nodes_of(result) in ({"g-0": "n1", "g-1": "n2"}, {"g-0": "n2", "g-1": "n1"})
    assert isinstance(result, GroupPlan)
    assert set(result.leftover) == {"uid-g-2"}
    decision = rejected_decisions(result.leftover)["uid-g-2"]
    assert fit_error(decision) == "0/6 nodes are available: 6 node(s) did not have enough free storage."


@pytest.mark.req("G1.domain")
def test_domain_that_takes_all_is_chosen() -> None:
    """G26."""
    pods, claims = a_gang(3, claims=[("node", "100Gi")])
    figures = {"n1": "150Gi", "n4": "110Gi", "n5": "110Gi", "n6": "110Gi"}
    cluster = GroupCluster(*cluster_objects(), *provisioned(figures), *claims)
    result = cluster.decide(pods, 3, topology_key=RACK)
    assert sorted(nodes_of(result).values()) == ["n4", "n5", "n6"]
    assert isinstance(result, GroupPlan)
    assert result.domain == "r2"


def test_zone_capacity_is_counted_for_its_nodes_together() -> None:
    """G27."""
    pods, claims = a_gang(3, claims=[("net", "100Gi")])
    figures = [zone_capacity("a", "250Gi"), zone_capacity("b", "90Gi"), zone_capacity("c", "90Gi")]
    refusal = refused(GroupCluster(*cluster_objects(), *figures, *claims).decide(pods, 3))
    assert refusal.exact
    assert refusal.certificate[0].members == 2


@pytest.mark.parametrize(("quorum", "fits"), [(2, False), (1, True)], ids=["two members", "one member"])
def test_classes_of_one_pool_take_from_it_together(quorum: int, fits: bool) -> None:
    """G28."""
    pods, claims = a_gang(2, claims=[("node", "60Gi"), ("fast", "60Gi")])
    objects = [a_class(name="fast", provisioner=NODE_DRIVER)]
    objects += [node_capacity("n1", "200Gi"), node_capacity("n1", "200Gi", storage_class="fast")]
    result = GroupCluster(*cluster_objects(), *objects, *claims).decide(pods, quorum)
    if fits:
        assert list(nodes_of(result).values()) == ["n1"]
    else:
        assert refused(result).exact
        assert refused(result).certificate[0].members == 1


def test_figure_that_does_not_add_up_is_asked_for_each_claim() -> None:
    """G29."""
    pods, claims = a_gang(3, claims=[("node", "80Gi")])
    topology: Body = {"matchLabels": {well_known.HOSTNAME: "n1"}}
    figure = a_capacity(storage_class="node", topology=topology, largest="100Gi")
    result = GroupCluster(*cluster_objects(), figure, *claims).decide(pods, 3)
    assert set(nodes_of(result).values()) == {"n1"}
    assert isinstance(result, GroupPlan)
    assert result.notes == ("reported capacity of class node does not add up: each volume was checked by itself",)


def test_volumes_in_flight_are_deducted() -> None:
    """G30."""
    pods, claims = a_gang(2, claims=[("node", "100Gi")])
    other = a_claim(name="other", storage_class="node", size="150Gi", selected_node="n1", uid="uid-other")
    cluster = GroupCluster(*cluster_objects(), node_capacity("n1", "300Gi"), other, *claims)
    refusal = refused(cluster.decide(pods, 2))
    assert refusal.exact
    assert refusal.certificate[0].shortages[0].places[0].amount == 150 * Gi


def test_claims_of_two_sources_meet_on_nodes_that_have_both() -> None:
    """G33."""
    pods, claims = a_gang(2, claims=[("local", "5Gi"), ("node", "100Gi")])
    objects: list[ApiObject] = [local_volume(f"pv-{node}", node) for node in ("n1", "n2", "n3")]
    objects += provisioned(dict.fromkeys(("n2", "n3", "n4"), "100Gi"))
    result = GroupCluster(*cluster_objects(), *objects, *claims).decide(pods, 2)
    assert sorted(nodes_of(result).values()) == ["n2", "n3"]


def test_member_without_claims_waits_with_the_others() -> None:
    """G34."""
    launcher, _ = a_gang(1, prefix="l")
    workers, claims = a_gang(2, claims=[("node", "100Gi")])
    cluster = GroupCluster(*cluster_objects(), node_capacity("n1", "110Gi"), *claims)
    refusal = refused(cluster.decide([*launcher, *workers], 3))
    assert refusal.exact
    assert refusal.message == "minCount (3) cannot be satisfied: 2 scheduled, 0 remaining"
    assert reserved(cluster) == 0


def test_unbound_immediate_claim_keeps_the_group_waiting() -> None:
    """G35."""
    pods, claims = a_gang(2, claims=[("local", "5Gi"), ("imm", "1Gi")])
    bound = a_claim(name=claims[1].name, storage_class="imm", volume="pv-i", bound=True, uid="uid-i")
    volumes = [a_volume(name="pv-i", storage_class="imm"), *(local_volume(f"pv-{node}", node) for node in ("n1", "n2"))]
    cluster = GroupCluster(*cluster_objects(), *volumes, claims[0], bound, claims[2], claims[3])
    refusal = refused(cluster.decide(pods, 2))
    decision = rejected_decisions(refusal.rejected)["uid-g-1"]
    assert fit_error(decision) == "0/6 nodes are available: pod has unbound immediate PersistentVolumeClaims."
    assert ShortageCode.CLAIMS in {one.code for one in refusal.certificate[0].shortages}
    assert reserved(cluster) == 0


# --- Shared claims


@pytest.mark.req("G1.shared")
def test_shared_claim_is_provisioned_where_all_users_reach_it() -> None:
    """G36."""
    pods, _ = a_gang(4, shared=["data"], cpu="4")
    data = a_claim(name="data", storage_class="net", size="50Gi", access_modes=RWX, uid="uid-data")
    cluster = GroupCluster(*cluster_objects(), zone_capacity("a", "60Gi"), data)
    result = cluster.decide(pods, 4)
    assert Counter(nodes_of(result).values()) == {"n1": 2, "n2": 2}
    assert isinstance(result, GroupPlan)
    [shared] = result.shared
    assert shared.claim == "default/data"
    assert len(shared.users) == 4
    assert shared.plan.node in ("n1", "n2")
    assert [one.claim.name for one in shared.plan.provision] == ["data"]
    assert all(member.plan.empty for member in result.members.values())


@pytest.mark.req("G1.shared")
def test_shared_claim_of_one_node_is_too_narrow() -> None:
    """G37."""
    pods, _ = a_gang(4, shared=["data"], cpu="4")
    data = a_claim(name="data", storage_class="node", size="50Gi", access_modes=RWX, uid="uid-data")
    cluster = GroupCluster(*cluster_objects(), *provisioned(dict.fromkeys(("n1", "n2"), "100Gi")), data)
    refusal = refused(cluster.decide(pods, 4))
    assert refusal.exact
    shortage = refusal.certificate[0].shortages[0]
    assert (shortage.code, shortage.subject) == (ShortageCode.SHARED_CLAIM, "default/data")
    assert (shortage.available, shortage.members) == (1, 2), "reached from one node, on which two members fit"
    assert refusal.claims == {"default/data"}


@pytest.mark.req("G1.shared")
def test_members_go_to_the_zone_of_a_shared_volume() -> None:
    """G38."""
    pods, _ = a_gang(4, shared=["data"])
    data = a_claim(name="data", access_modes=RWX, uid="uid-data")
    volume = zonal_volume("pv-b", "b", access_modes=RWX)
    result = GroupCluster(*cluster_objects(), volume, data).decide(pods, 4)
    assert set(nodes_of(result).values()) <= {"n3", "n4"}
    assert volumes_of(result) == {"data": "pv-b"}


@pytest.mark.req("G1.shared")
def test_users_of_an_attached_volume_are_on_one_node() -> None:
    """G39."""
    pods, _ = a_gang(3, shared=["data"], cpu="2")
    data = a_claim(name="data", storage_class="net", size="50Gi", uid="uid-data")
    result = GroupCluster(*cluster_objects(), zone_capacity("b", "60Gi"), data).decide(pods, 3)
    assert len(set(nodes_of(result).values())) == 1
    assert set(nodes_of(result).values()) <= {"n3", "n4"}
    assert isinstance(result, GroupPlan)
    assert result.shared[0].plan.node == nodes_of(result)["g-0"]


@pytest.mark.req("G1.shared")
def test_claim_for_one_pod_is_not_shared() -> None:
    """G40."""
    pods, _ = a_gang(2, shared=["data"])
    data = a_claim(name="data", storage_class="net", size="50Gi", access_modes=("ReadWriteOncePod",), uid="uid-data")
    refusal = refused(GroupCluster(*cluster_objects(), zone_capacity("a", "60Gi"), data).decide(pods, 2))
    assert refusal.exact
    assert refusal.message == "minCount (2) cannot be satisfied: 1 scheduled, 0 remaining"


@pytest.mark.req("G1.shared")
def test_shared_claim_takes_capacity_once() -> None:
    """G41."""
    pods, _ = a_gang(3, shared=["data"])
    data = a_claim(name="data", storage_class="node", size="100Gi", access_modes=RWX, uid="uid-data")
    result = GroupCluster(*cluster_objects(), node_capacity("n1", "150Gi"), data).decide(pods, 3)
    assert set(nodes_of(result).values()) == {"n1"}


@pytest.mark.req("G1.shared")
def test_shared_claim_counts_against_the_limit_of_each_node() -> None:
    """A node takes one volume: the shared one, beside an existing volume that no driver attaches."""
    pods, claims = a_gang(2, claims=[("net", "8Gi")], shared=["data"])
    data = a_claim(name="data", storage_class="net", size="8Gi", access_modes=RWX, uid="uid-data")
    limits = {f"n{number}": {NET_DRIVER: 1} for number in range(1, 7)}
    objects: list[ApiObject] = [zone_capacity("a", "100Gi"), data, *claims]
    cluster = GroupCluster(*cluster_objects(limits=limits), *objects)
    assert refused(cluster.decide(pods, 2)).code
    volumes = [local_volume(f"pv-{number}", "n1", "50Gi", storage_class="net") for number in range(2)]
    result = GroupCluster(*cluster_objects(limits=limits), *objects, *volumes).decide(pods, 2)
    assert nodes_of(result) == {"g-0": "n1", "g-1": "n1"}
    assert volumes_of(result)["data"] == ""
    assert sorted(volumes_of(result).values()) == ["", "pv-0", "pv-1"]


# --- Limits and topology


def attached() -> list[ApiObject]:
    """Two volumes of the driver are in use on n1 and two on n2."""
    objects: list[ApiObject] = []
    for node in ("n1", "n2"):
        for number in range(2):
            name = f"{node}-{number}"
            source = {"csi": {"driver": NET_DRIVER, "volumeHandle": name}}
            objects.append(a_volume(name=f"pv-{name}", storage_class="net", source=source, phase="Bound"))
            objects.append(
                a_claim(name=f"used-{name}", storage_class="net", volume=f"pv-{name}", bound=True, uid=f"uid-{name}")
            )
            objects.append(a_pod(name=f"user-{name}", uid=f"pod-{name}", claims=[f"used-{name}"], node=node))
    return objects


@pytest.mark.parametrize(("quorum", "fits"), [(4, True), (5, False)], ids=["G42 four places", "G43 five members"])
def test_attach_limits_hold_for_all_members(quorum: int, fits: bool) -> None:
    pods, claims = a_gang(quorum, claims=[("net", "1Gi"), ("net", "1Gi")])
    figures = [zone_capacity(zone, "500Gi") for zone in "abc"]
    limits = {f"n{number}": {NET_DRIVER: 2} for number in range(1, 7)}
    cluster = GroupCluster(*cluster_objects(limits=limits), *figures, *attached(), *claims)
    result = cluster.decide(pods, quorum)
    if fits:
        assert sorted(nodes_of(result).values()) == ["n3", "n4", "n5", "n6"]
    else:
        assert refused(result).exact
        assert refused(result).drivers == {NET_DRIVER}
        assert refused(result).certificate[0].members == 4


@pytest.mark.req("G1.domain")
def test_members_follow_one_that_is_placed() -> None:
    """G44."""
    pods, _ = a_gang(3)
    result = GroupCluster(*cluster_objects()).decide(pods, 4, placed=["n5"], topology_key=RACK)
    assert set(nodes_of(result).values()) <= {"n4", "n5", "n6"}


@pytest.mark.req("G1.domain")
def test_placed_members_in_two_domains_are_an_error() -> None:
    """G45."""
    pods, _ = a_gang(1)
    refusal = refused(GroupCluster(*cluster_objects()).decide(pods, 3, placed=["n1", "n5"], topology_key=RACK))
    assert refusal.code is RefusalCode.DOMAINS_DIFFER
    assert refusal.message == (
        "cannot determine domain for already scheduled pods: more than 1 domain found for pod group: r1, r2"
    )


@pytest.mark.req("G1.domain")
def test_bound_claims_in_two_zones_leave_no_domain() -> None:
    """G46."""
    pods, claims = a_gang(2, claims=[("local", "5Gi"), ("net", "1Gi")])
    objects: list[ApiObject] = [zone_capacity(zone, "100Gi") for zone in "ab"]
    for member, zone in enumerate("ab"):
        name = claims[2 * member].name
        ref = {"namespace": "default", "name": name, "uid": f"uid-{name}"}
        objects.append(zonal_volume(f"pv-{zone}", zone, claim_ref=ref, phase="Bound"))
        objects.append(a_claim(name=name, volume=f"pv-{zone}", bound=True, uid=f"uid-{name}"))
        objects.append(claims[2 * member + 1])
    refusal = refused(GroupCluster(*cluster_objects(), *objects).decide(pods, 2, topology_key=well_known.ZONE))
    assert refusal.exact
    assert {one.domain: one.members for one in refusal.certificate} == {"a": 1, "b": 1, "c": 0}


@pytest.mark.req("G1.domain")
def test_members_apart_from_each_other_do_not_fit_a_rack() -> None:
    """G48."""
    term = {"topologyKey": well_known.HOSTNAME, "labelSelector": {"matchLabels": {"app": "g"}}}
    apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    pods, claims = a_gang(4, claims=[("net", "1Gi")], affinity=apart)
    figures = [zone_capacity(zone, "500Gi") for zone in "abc"]
    cluster = GroupCluster(*cluster_objects(), *figures, *claims)
    refusal = refused(cluster.decide(pods, 4, topology_key=RACK))
    assert refusal.exact
    assert {one.members for one in refusal.certificate} == {3}
    pods, claims = a_gang(3, claims=[("net", "1Gi")], affinity=apart)
    cluster = GroupCluster(*cluster_objects(), *figures, *claims)
    assert len(set(nodes_of(cluster.decide(pods, 3, topology_key=RACK)).values())) == 3
