"""The PV controller from creation to deletion, crashed after any write and with every kind of fault.

Pairs that match, that a user reserves from either side, that a provisioner creates; claims that are deleted later, and
the state of their volumes.
"""

from collections.abc import Iterable
from itertools import count
from typing import Final

import pytest

from mooring.api.errors import NotFound
from mooring.api.kinds import CLAIM, VOLUME
from mooring.cluster.bootstrap import Layout
from support.builders import Body, claim_body, claim_ref, class_body, volume_body
from support.scenarios import simulated
from support.simulation.cluster import SimulatedCluster
from support.simulation.fault_scenario import FaultScenario, check
from support.simulation.faults import Crash, FaultPlan, draw
from support.simulation.history import Noted
from support.simulation.invariants import Facts, Subject, Violation
from support.simulation.scenarios import BINDER, FAULT_LIMITS, PROTECTION, WITH_DUPLICATES, seeds

STAND_IN: Final = "standin-provisioner"
MADE: Final = class_body(name="made", binding_mode="Immediate", provisioner="zonal.standins.mooring.dev")
#: Two of each kind; the second of each kind is deleted once there was time to bind it.
KINDS: Final = ("found", "named", "reserved", "made")
GOES: Final = frozenset(f"{kind}-2" for kind in KINDS)
#: What becomes of the volumes of claims that are gone.
AFTERWARDS: Final = {"found": "Released", "named": "Released", "reserved": "Released", "made": None}


def bodies() -> Iterable[Body]:
    yield MADE
    for number in (1, 2):
        yield class_body(name=f"now-{number}", binding_mode="Immediate")
        yield volume_body(name=f"found-{number}", storage_class=f"now-{number}", node="node-1")
        yield claim_body(name=f"found-{number}", storage_class=f"now-{number}")
        yield volume_body(name=f"named-{number}", storage_class="", node="node-1")
        yield claim_body(name=f"named-{number}", storage_class="", volume=f"named-{number}")
        # Of a class: a claim without one may get a volume that another claim names, if its own is observed late.
        yield class_body(name=f"reserved-{number}", binding_mode="Immediate")
        reserved = claim_ref(name=f"reserved-{number}")
        yield volume_body(
            name=f"reserved-{number}", storage_class=f"reserved-{number}", node="node-1", claim_ref=reserved
        )
        yield claim_body(name=f"reserved-{number}", storage_class=f"reserved-{number}")
        yield claim_body(name=f"made-{number}", storage_class="made")


async def bind_and_delete(cluster: SimulatedCluster) -> None:
    for body in bodies():
        await simulated.create(cluster, body)

    async def bound() -> bool:
        listing = await cluster.client.list(CLAIM)
        return all(claim.status.phase == "Bound" for claim in listing.items if claim.name in GOES)

    await cluster.until(bound, within=120.0)
    for name in sorted(GOES):
        try:
            await cluster.client.delete(CLAIM, name, namespace="default")
        except NotFound:
            raise AssertionError(f"another client deleted {name}") from None


def claims_and_volumes_converged(facts: Facts) -> Iterable[Violation]:
    """Every remaining claim is bound to its volume; the volume of every deleted claim is retained or deleted."""
    for kind in KINDS:
        key = f"default/{kind}-1"
        claim = facts.claims.get(key)
        volume = None if claim is None else facts.volume_of(claim)
        if claim is None or volume is None or (claim.status.phase, volume.status.phase) != ("Bound", "Bound"):
            yield Violation("kept claims are bound", f"{key} is not", (Subject(CLAIM, key),))
        elif kind != "made" and volume.name != f"{kind}-1":
            yield Violation("kept claims are bound", f"{key} has {volume.name}", (Subject(CLAIM, key),))
        if f"default/{kind}-2" in facts.claims:
            yield Violation(
                "deleted claims are removed", f"{kind}-2 still exists", (Subject(CLAIM, f"default/{kind}-2"),)
            )
        left = facts.volumes.get(f"{kind}-2")
        if (None if left is None else left.status.phase) != AFTERWARDS[kind]:
            yield Violation(
                "volumes follow their reclaim policy", f"{kind}-2 does not", (Subject(VOLUME, f"{kind}-2"),)
            )
    made = [volume.name for volume in facts.volumes.values() if volume.storage_class == "made"]
    if len(made) != 1:
        yield Violation("provisioned volumes are deleted with their claim", f"{made} still exist", ())


LIFE: Final = FaultScenario(Layout(nodes=3, local_volumes=0), bind_and_delete, expect=claims_and_volumes_converged)


@pytest.mark.req("T42.settles")
@pytest.mark.parametrize(("instance", "least"), [(BINDER, 35), (PROTECTION, 4), (STAND_IN, 4)])
def test_crash_after_any_write_is_recovered(instance: str, least: int) -> None:
    points = 0
    for number in count(1):
        result = check(LIFE, seed=1, plan=FaultPlan((Crash(instance, number, 2.0),), 0.01))
        if not any("crashed" in entry.what for entry in result.history.entries if isinstance(entry, Noted)):
            break
        points = number
    assert points >= least, "fewer writes than the work takes: the crashes missed it"


@pytest.mark.req("T42.settles")
@pytest.mark.parametrize("seed", seeds(8))
def test_claims_converge_after_random_faults(seed: int) -> None:
    check(LIFE, seed=seed, plan=draw(seed, FAULT_LIMITS))


@pytest.mark.req("T42.PC38")
@pytest.mark.parametrize("seed", seeds(6))
def test_claims_converge_with_duplicate_controllers(seed: int) -> None:
    check(LIFE, seed=seed, plan=draw(seed, WITH_DUPLICATES))
