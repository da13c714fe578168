import random

import pytest

from mooring.api import well_known
from mooring.api.views.meta import ApiObject
from mooring.scheduler.configuration import API_VERSION, KIND, ConfigurationError, read
from mooring.scheduler.framework import cycle
from mooring.scheduler.framework.interface import CycleState
from mooring.scheduler.plugins.volume_binding import VolumeSpread
from mooring.scheduler.registry import DEFAULT, OPTIONAL
from support.builders import a_claim, a_class, a_node, a_pod, a_volume, claim_ref
from support.builders.drivers import DRIVER
from support.scheduler.snapshots import a_snapshot, scored

DB = {"app": "db"}
NODES = [a_node(name=f"{zone}1", labels={well_known.HOSTNAME: f"{zone}1", well_known.ZONE: zone}) for zone in "abc"]
BARE = a_node(name="bare", labels={well_known.HOSTNAME: "bare"})
NEW = a_claim(name="new", storage_class="made", labels=DB)
POD = a_pod(claims=["new"])


def replica(name: str, on: str, *, labels: dict[str, str] = DB, namespace: str = "default") -> list[ApiObject]:
    """A claim and its volume on one node, whose pod need not be there."""
    reference = claim_ref(name=name, namespace=namespace, uid=f"{name}-uid")
    volume = a_volume(name=f"v-{name}", claim_ref=reference, phase="Bound", node=on, storage_class="made")
    claim = a_claim(name=name, namespace=namespace, volume=volume.name, bound=True, labels=labels, storage_class="made")
    return [claim, volume]


def in_flight(name: str, on: str) -> ApiObject:
    return a_claim(name=name, storage_class="made", labels=DB, selected_node=on)


@pytest.mark.parametrize(
    ("objects", "want"),
    [
        pytest.param([], None, id="the first of its kind"),
        pytest.param(replica("d0", "a1"), {"a1": 0, "b1": 100, "c1": 100, "bare": 0}, id="one is there"),
        pytest.param(
            [*replica("d0", "a1"), *replica("d1", "a1"), *replica("d2", "b1")],
            {"a1": 0, "b1": 50, "c1": 100, "bare": 0},
            id="the fewer the better",
        ),
        pytest.param(
            [*replica("d0", "a1"), in_flight("d1", "b1")],
            {"a1": 0, "b1": 0, "c1": 100, "bare": 0},
            id="one is being made",
        ),
        pytest.param(replica("d0", "a1", labels={"app": "web"}), None, id="of another app"),
        pytest.param(replica("d0", "a1", namespace="other"), None, id="in another namespace"),
        pytest.param(replica("d0", "bare"), None, id="in no zone"),
        pytest.param(
            [a_claim(name="d0", volume="v", bound=True, labels=DB), a_volume(name="v", phase="Bound")],
            None,
            id="within reach of all zones",
        ),
    ],
)
def test_scores(objects: list[ApiObject], want: dict[str, float] | None) -> None:
    snapshot = a_snapshot(*NODES, BARE, a_class(name="made", provisioner=DRIVER), NEW, *objects)
    assert scored(VolumeSpread(), POD, snapshot) == want


def test_pod_with_bound_claims_is_not_scored() -> None:
    snapshot = a_snapshot(*NODES, a_class(name="made", provisioner=DRIVER), *replica("d0", "a1"), *replica("d1", "b1"))
    assert scored(VolumeSpread(), a_pod(claims=["d0"]), snapshot) is None


def configured(**plugins: object) -> object:
    return {"apiVersion": API_VERSION, "kind": KIND, "profiles": [{"plugins": {"multiPoint": plugins}}]}


def test_it_is_off_until_a_profile_enables_it() -> None:
    """Volumes of a set that was scaled down: two in zone a, one in b, and no pod left to be spread by."""
    objects = [
        *NODES,
        a_class(name="made", provisioner=DRIVER),
        NEW,
        *replica("d0", "a1"),
        *replica("d1", "a1"),
        *replica("d2", "b1"),
    ]
    [profile] = read(configured(enabled=[{"name": "VolumeSpread", "weight": 5}])).profiles.values()
    chosen = {
        cycle.run_cycle(CycleState(POD, a_snapshot(*objects)), profile, random.Random(seed)).node for seed in range(8)
    }
    assert chosen == {"c1"}
    usual = {
        cycle.run_cycle(CycleState(POD, a_snapshot(*objects)), DEFAULT, random.Random(seed)).node for seed in range(8)
    }
    assert len(usual) > 1, "without it all zones are alike"
    assert not {plugin.name for plugin in OPTIONAL} & {plugin.name for plugin in DEFAULT.plugins}


def test_disabling_what_is_off_is_fine_and_a_wrong_name_is_not() -> None:
    [profile] = read(configured(disabled=[{"name": "VolumeSpread"}])).profiles.values()
    assert [plugin.name for plugin in profile.plugins] == [plugin.name for plugin in DEFAULT.plugins]
    with pytest.raises(ConfigurationError, match="VolumeSpread, VolumeZone"):
        read(configured(enabled=[{"name": "VolumeSprawl"}]))
