"""Interventions: deletions by users and bindings by another client; missing or reserved objects stay unchanged."""

import pytest

from mooring.api.kinds import CLAIM, VOLUME
from mooring.cluster.bootstrap import Layout
from support.builders import claim_body, claim_ref, volume_body
from support.scenarios import simulated
from support.simulation.cluster import SimulatedCluster, simulate
from support.simulation.faults import Deletion, Fault, FaultPlan, VolumeBoundByOther, VolumeDeletion
from support.simulation.history import OTHER_WRITER, USER, Noted


class Aftermath(dict[str, str]):
    """Volumes and their claims afterwards."""

    notes: list[tuple[str, str]]


def after(*faults: Fault) -> Aftermath:
    """Run with one available volume and one that is reserved for a claim that is created last."""

    async def scenario(cluster: SimulatedCluster) -> Aftermath:
        await simulated.create(
            cluster,
            volume_body(name="free", node="node-1"),
            volume_body(name="reserved", node="node-1", claim_ref=claim_ref(name="mine")),
            claim_body(name="mine"),
        )
        await cluster.clock.sleep(20.0)
        volumes = (await cluster.client.list(VOLUME)).items
        found = Aftermath({v.name: v.spec.claim_ref.name if v.spec.claim_ref else "" for v in volumes})
        found |= {c.key: c.status.phase for c in (await cluster.client.list(CLAIM)).items}
        entries = [entry for entry in cluster.history.entries if isinstance(entry, Noted)]
        found.notes = [(entry.author, entry.what) for entry in entries]
        return found

    return simulate(scenario, layout=Layout(nodes=1, local_volumes=0), plan=FaultPlan(faults))


def test_free_volume_is_bound_by_other_client() -> None:
    found = after(VolumeBoundByOther("free", 3))
    assert (OTHER_WRITER, "bound volume free") in found.notes
    assert found["free"] == "rival-free"
    assert found["default/rival-free"] == "Bound"


@pytest.mark.parametrize(
    ("volume", "note"),
    [
        pytest.param("reserved", "volume reserved is not free", id="not free"),
        pytest.param("nothing", "volume nothing not found", id="not there"),
    ],
)
def test_volume_that_is_not_free_is_not_bound(volume: str, note: str) -> None:
    found = after(VolumeBoundByOther(volume, 3))
    assert (OTHER_WRITER, note) in found.notes
    assert (found["free"], found["reserved"]) == ("", "mine")


def test_volume_deletion_deletes_volumes_of_the_claim() -> None:
    found = after(VolumeDeletion("default/mine", 2))
    assert (USER, "deletes persistentvolumes reserved") in found.notes
    assert "reserved" not in found


def test_deletion_of_missing_object_is_noted() -> None:
    found = after(Deletion("pods", "default/missing", 3))
    assert found.notes == [(USER, "deletes pods default/missing"), (USER, "pods default/missing was not there")]
