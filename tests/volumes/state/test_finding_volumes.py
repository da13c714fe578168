"""Kubernetes' table of pods with bound, unbound and provisioned claims, each with and without a driver that reports its
capacity. Two nodes; the pod is asked about the first.
"""

from collections.abc import Sequence

import pytest

from mooring.api import well_known
from mooring.api.views.meta import ApiObject
from mooring.api.views.pods import Pod
from mooring.api.views.storage import Claim, Volume
from mooring.volumes.binding import UNBOUND_IMMEDIATE, PodClaims
from mooring.volumes.state import ConflictReason
from support.builders import a_claim, a_class, a_csi_node, a_driver, a_pod, a_volume, owned_by, pod_body
from support.builders.volume_library import VolumeLibrary

pytestmark = [pytest.mark.req("T9.matching"), pytest.mark.level("u")]

UNBOUND = a_claim(name="unbound", size="1G")
UNBOUND_2 = a_claim(name="unbound2", size="5G")
PREBOUND = a_claim(name="prebound", volume="n1a")
BOUND = a_claim(name="bound", volume="pv-bound", bound=True)
NOW = a_claim(name="now", storage_class="now")
NOW_BOUND = a_claim(name="now-bound", storage_class="now", volume="pv-bound", bound=True)
MADE = a_claim(name="made", storage_class="made", size="1Gi")
SELECTED = a_claim(name="selected", storage_class="made", size="1Gi", selected_node="n1")
ELSEWHERE = a_claim(name="elsewhere", storage_class="elsewhere")

N1A = a_volume(name="n1a", size="5G", node="n1")
N1B = a_volume(name="n1b", size="10G", node="n1")
N2 = a_volume(name="n2", size="1G", node="n2")
ON_1 = a_volume(name="pv-bound", node="n1", phase="Bound")
ON_2 = a_volume(name="pv-bound", node="n2", phase="Bound")

EPHEMERAL = a_pod(ephemeral=["scratch"], uid="pod-1-uid")
OWNED = a_claim(
    name="pod-1-scratch", volume="pv-bound", bound=True, owners=[owned_by(pod_body(), uid=EPHEMERAL.metadata.uid)]
)
NOT_OWNED = a_claim(name="pod-1-scratch", volume="pv-bound", bound=True)

DRIVERS = pytest.mark.parametrize(
    "driver",
    [
        pytest.param([], id="no driver object"),
        pytest.param([a_driver(tracks_capacity=True)], id="a driver that reports its capacity"),
        pytest.param([a_driver(tracks_capacity=False)], id="a driver that does not"),
    ],
)


def world_of(*things: ApiObject) -> VolumeLibrary:
    elsewhere = a_class(
        name="elsewhere", provisioner="csi.example.com", allowed_topologies=[{well_known.HOSTNAME: ["n9"]}]
    )
    return VolumeLibrary(elsewhere, *things)


def asked(library: VolumeLibrary, pod: Pod) -> tuple[list[str], dict[str, str], list[str]] | str:
    """About the first node: why not, the volumes claims get there, and the claims that one would be made for."""
    claims = library.state.claims_of(pod)
    if not isinstance(claims, PodClaims):
        return claims
    on_first = library.topology.named("n1")
    reasons = [reason for nodes, reason in library.state.rejections(claims) if nodes & on_first]
    given = {claim.name: volume.name for claim, volume in library.state.matches(claims, "n1") if volume is not None}
    made = [] if reasons else [request.claim.name for request in library.state.plan(claims, "n1").provision]
    return reasons, given, made


def pod_with(*claims: Claim) -> Pod:
    return a_pod(claims=[claim.name for claim in claims])


@DRIVERS
@pytest.mark.parametrize(
    ("pod", "objects", "want"),
    [
        pytest.param(a_pod(), [], ([], {}, []), id="no volumes"),
        pytest.param(a_pod(volumes=[{"name": "scratch", "emptyDir": {}}]), [], ([], {}, []), id="no claims"),
        pytest.param(pod_with(UNBOUND), [], 'persistentvolumeclaim "unbound" not found', id="claim missing"),
        pytest.param(pod_with(BOUND), [BOUND, ON_1], ([], {}, []), id="bound"),
        pytest.param(
            pod_with(BOUND), [BOUND], ([ConflictReason.VOLUME_MISSING], {}, []), id="bound to a volume that is gone"
        ),
        pytest.param(pod_with(PREBOUND), [PREBOUND, N1A], UNBOUND_IMMEDIATE, id="prebound by the user"),
        pytest.param(
            pod_with(UNBOUND), [UNBOUND, N2, N1A, N1B], ([], {"unbound": "n1a"}, []), id="smallest on the node"
        ),
        pytest.param(
            pod_with(UNBOUND), [UNBOUND, N2], ([ConflictReason.NO_VOLUME], {}, []), id="only on the other node"
        ),
        pytest.param(
            pod_with(UNBOUND, UNBOUND_2),
            [UNBOUND, UNBOUND_2, N1A, N1B],
            ([], {"unbound": "n1a", "unbound2": "n1b"}, []),
            id="two claims, two volumes",
        ),
        pytest.param(
            pod_with(UNBOUND_2, UNBOUND),
            [UNBOUND, UNBOUND_2, N1A, N1B],
            ([], {"unbound": "n1a", "unbound2": "n1b"}, []),
            id="two claims, the larger listed first",
        ),
        pytest.param(
            pod_with(UNBOUND, UNBOUND_2),
            [UNBOUND, UNBOUND_2, N1A],
            ([ConflictReason.NO_VOLUME], {"unbound2": "n1a"}, []),
            id="two claims, one volume",
        ),
        pytest.param(
            pod_with(BOUND, UNBOUND), [BOUND, UNBOUND, ON_1, N1A], ([], {"unbound": "n1a"}, []), id="bound and unbound"
        ),
        pytest.param(
            pod_with(BOUND, UNBOUND),
            [BOUND, UNBOUND, ON_1, N2],
            ([ConflictReason.NO_VOLUME], {}, []),
            id="bound, and unbound without a volume",
        ),
        pytest.param(
            pod_with(UNBOUND, PREBOUND), [UNBOUND, PREBOUND, N1A, N1B], UNBOUND_IMMEDIATE, id="prebound and unbound"
        ),
        pytest.param(pod_with(NOW_BOUND), [NOW_BOUND, ON_1], ([], {}, []), id="immediate and bound"),
        pytest.param(
            pod_with(NOW_BOUND),
            [NOW_BOUND, ON_2],
            ([ConflictReason.NODE_AFFINITY], {}, []),
            id="immediate, bound elsewhere",
        ),
        pytest.param(pod_with(NOW), [NOW], UNBOUND_IMMEDIATE, id="immediate and unbound"),
        pytest.param(pod_with(NOW, BOUND), [NOW, BOUND, ON_1], UNBOUND_IMMEDIATE, id="immediate unbound, and bound"),
        pytest.param(
            pod_with(NOW, UNBOUND), [NOW, UNBOUND, N1A], UNBOUND_IMMEDIATE, id="immediate unbound, and delayed"
        ),
        pytest.param(
            EPHEMERAL,
            [],
            'waiting for ephemeral volume controller to create the persistentvolumeclaim "pod-1-scratch"',
            id="ephemeral, no claim yet",
        ),
        pytest.param(EPHEMERAL, [OWNED, ON_1], ([], {}, []), id="ephemeral, with its claim"),
        pytest.param(
            EPHEMERAL,
            [NOT_OWNED, ON_1],
            "PVC default/pod-1-scratch was not created for pod default/pod-1 (pod is not owner)",
            id="ephemeral, with another owner's claim",
        ),
        pytest.param(pod_with(NOW, MADE), [NOW, MADE], UNBOUND_IMMEDIATE, id="immediate unbound, and one to be made"),
        pytest.param(
            pod_with(UNBOUND), [UNBOUND], ([ConflictReason.NO_VOLUME], {}, []), id="a class without a provisioner"
        ),
        pytest.param(
            pod_with(ELSEWHERE),
            [ELSEWHERE],
            ([ConflictReason.NO_VOLUME], {}, []),
            id="a class that does not allow the node",
        ),
    ],
)
def test_without_provisioning(
    driver: Sequence[ApiObject],
    pod: Pod,
    objects: Sequence[ApiObject],
    want: tuple[list[str], dict[str, str], list[str]] | str,
) -> None:
    assert asked(world_of(*driver, *objects), pod) == want


@pytest.mark.req("T20.provisioned", "T9.provisioning-last")
@pytest.mark.parametrize(
    ("claims", "volumes", "given", "made"),
    [
        pytest.param([MADE], [], {}, ["made"], id="one to be made"),
        pytest.param([UNBOUND, MADE], [N1A], {"unbound": "n1a"}, ["made"], id="one matched, one to be made"),
        pytest.param([BOUND, MADE], [ON_1], {}, ["made"], id="one bound, one to be made"),
        pytest.param([BOUND, SELECTED], [ON_1], {}, ["selected"], id="one bound, one already sent to this node"),
        pytest.param([NOW_BOUND, MADE], [ON_1], {}, ["made"], id="one immediate and bound, one to be made"),
    ],
)
@DRIVERS
def test_with_provisioning(
    driver: Sequence[ApiObject],
    claims: Sequence[Claim],
    volumes: Sequence[Volume],
    given: dict[str, str],
    made: list[str],
) -> None:
    found = asked(world_of(*driver, *claims, *volumes), pod_with(*claims))

    tracked = driver == [a_driver(tracks_capacity=True)]
    assert found == (([ConflictReason.STORAGE_CAPACITY], given, []) if tracked else ([], given, made))


GCE_ZONE = "topology.gke.io/zone"
IN_TREE = a_volume(
    name="pv-bound",
    labels={well_known.ZONE_BETA: "us-east-1"},
    phase="Bound",
    source={"gcePersistentDisk": {"pdName": "disk"}},
)


@pytest.mark.parametrize(
    ("node_zone", "csi_nodes", "want"),
    [
        pytest.param("us-east-1", [a_csi_node(name="n1", migrated="kubernetes.io/gce-pd")], [], id="in the zone"),
        pytest.param("us-east-2", [a_csi_node(name="n1", migrated="")], [], id="the node uses no driver for it"),
        pytest.param("us-east-2", [], [], id="the node has said nothing of drivers"),
        pytest.param(
            "us-east-2",
            [a_csi_node(name="n1", migrated="kubernetes.io/gce-pd")],
            [ConflictReason.NODE_AFFINITY],
            id="in another zone",
        ),
    ],
)
def test_disks_that_a_driver_took_over_are_where_the_driver_says(
    node_zone: str, csi_nodes: list[ApiObject], want: list[str]
) -> None:
    library = VolumeLibrary(BOUND, IN_TREE, *csi_nodes, nodes={"n1": {GCE_ZONE: node_zone}})

    assert asked(library, pod_with(BOUND)) == (want, {}, [])


def test_new_nodes_keep_their_migrated_plugins() -> None:
    migrated = a_csi_node(name="n2", migrated="kubernetes.io/gce-pd")
    library = VolumeLibrary(BOUND, IN_TREE, migrated, nodes={"n1": {GCE_ZONE: "us-east-2"}})
    assert library.rejected("bound") == {}

    library.topology.put("n2", {GCE_ZONE: "us-east-2"})
    assert library.rejected("bound") == {ConflictReason.NODE_AFFINITY: {"n2"}}

    library.state.observe_csi_node(migrated, None)
    assert library.rejected("bound") == {}
