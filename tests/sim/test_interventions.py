"""What comes from outside: users who delete, and others who take volumes. Nobody gets what is not there or not free."""

import pytest

from builders import claim_body, claim_ref, volume_body
from mooring.api.kinds import CLAIM, VOLUME
from mooring.cluster.bootstrap import Layout
from mooring.sim.faults import Deletion, Fault, FaultPlan, Taking, VolumeDeletion
from mooring.sim.history import RIVAL, USER, Noted
from mooring.sim.world import World, simulate
from scenarios import in_world


class Aftermath(dict[str, str]):
    """Volumes and whose they are."""

    told: list[tuple[str, str]]


def after(*faults: Fault) -> Aftermath:
    """One volume is free, one is reserved for a claim that comes last."""

    async def scenario(world: World) -> Aftermath:
        await in_world.create(
            world,
            volume_body(name="free", node="node-1"),
            volume_body(name="reserved", node="node-1", claim_ref=claim_ref(name="mine")),
            claim_body(name="mine"),
        )
        await world.clock.sleep(20.0)
        volumes = (await world.client.list(VOLUME)).items
        found = Aftermath({v.name: v.spec.claim_ref.name if v.spec.claim_ref else "" for v in volumes})
        found |= {c.key: c.status.phase for c in (await world.client.list(CLAIM)).items}
        entries = [entry for entry in world.history.entries if isinstance(entry, Noted)]
        found.told = [(entry.who, entry.what) for entry in entries]
        return found

    return simulate(scenario, layout=Layout(nodes=1, local_volumes=0), plan=FaultPlan(faults))


def test_a_free_volume_can_be_taken_and_is_bound_to_the_taker() -> None:
    found = after(Taking("free", 3))
    assert (RIVAL, "took volume free") in found.told
    assert found["free"] == "rival-free"
    assert found["default/rival-free"] == "Bound"


@pytest.mark.parametrize(
    ("volume", "said"),
    [
        pytest.param("reserved", "volume reserved is not free", id="not free"),
        pytest.param("nothing", "there is no volume nothing to take", id="not there"),
    ],
)
def test_what_is_not_free_cannot_be_taken(volume: str, said: str) -> None:
    found = after(Taking(volume, 3))
    assert (RIVAL, said) in found.told
    assert (found["free"], found["reserved"]) == ("", "mine")


def test_a_user_deletes_whatever_volume_a_claim_has() -> None:
    found = after(VolumeDeletion("default/mine", 2))
    assert (USER, "deletes persistentvolumes reserved") in found.told
    assert "reserved" not in found


def test_what_is_not_there_is_not_deleted() -> None:
    found = after(Deletion("pods", "default/nobody", 3))
    assert found.told == [(USER, "deletes pods default/nobody"), (USER, "pods default/nobody was not there")]
