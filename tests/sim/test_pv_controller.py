"""The PV controller from beginning to end, killed after any write and with every kind of trouble on its line.

Pairs found, reserved by the user from either side, made by a provisioner; claims that go afterwards, and what becomes
of their volumes.
"""

from collections.abc import Iterable
from itertools import count
from typing import Final

import pytest

from builders import Body, claim_body, claim_ref, class_body, volume_body
from mooring.api.errors import NotFound
from mooring.api.kinds import CLAIM, VOLUME
from mooring.cluster.bootstrap import Layout
from mooring.sim.facts import Facts, Subject
from mooring.sim.faults import Crash, FaultPlan
from mooring.sim.hazards import draw
from mooring.sim.history import Noted
from mooring.sim.invariants import Violation
from mooring.sim.trial import Trial, check
from mooring.sim.world import World
from scenarios import in_world
from sim.trials import BINDER, PROTECTION, ROUGH, TWINS, seeds

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
        reserved = claim_ref(name=f"reserved-{number}")
        yield volume_body(name=f"reserved-{number}", storage_class="", node="node-1", claim_ref=reserved)
        yield claim_body(name=f"reserved-{number}", storage_class="")
        yield claim_body(name=f"made-{number}", storage_class="made")


async def live_and_let_go(world: World) -> None:
    for body in bodies():
        await in_world.create(world, body)

    async def bound() -> bool:
        listing = await world.client.list(CLAIM)
        return all(claim.status.phase == "Bound" for claim in listing.items if claim.name in GOES)

    await world.until(bound, within=20.0)
    for name in sorted(GOES):
        try:
            await world.client.delete(CLAIM, name, namespace="default")
        except NotFound:
            raise AssertionError(f"nobody but us deletes {name}") from None


def all_is_well(facts: Facts) -> Iterable[Violation]:
    """Every claim that stayed is bound to its volume; every other is gone, and its volume kept or deleted."""
    for kind in KINDS:
        key = f"default/{kind}-1"
        claim = facts.claims.get(key)
        volume = None if claim is None else facts.volume_of(claim)
        if claim is None or volume is None or (claim.status.phase, volume.status.phase) != ("Bound", "Bound"):
            yield Violation("who stays is bound", f"{key} is not", (Subject(CLAIM, key),))
        elif kind != "made" and volume.name != f"{kind}-1":
            yield Violation("who stays is bound", f"{key} has {volume.name}", (Subject(CLAIM, key),))
        if f"default/{kind}-2" in facts.claims:
            yield Violation("who goes is gone", f"{kind}-2 is there", (Subject(CLAIM, f"default/{kind}-2"),))
        left = facts.volumes.get(f"{kind}-2")
        if (None if left is None else left.status.phase) != AFTERWARDS[kind]:
            yield Violation(
                "volumes outlive claims as they should", f"{kind}-2 does not", (Subject(VOLUME, f"{kind}-2"),)
            )
    made = [volume.name for volume in facts.volumes.values() if volume.storage_class == "made"]
    if len(made) != 1:
        yield Violation("what was made goes with its claim", f"{made} are there", ())


LIFE: Final = Trial(Layout(nodes=3, local_volumes=0), live_and_let_go, expect=all_is_well)


@pytest.mark.req("T42")
@pytest.mark.parametrize(("who", "least"), [(BINDER, 35), (PROTECTION, 4), (STAND_IN, 4)])
def test_a_crash_after_any_write_is_made_good(who: str, least: int) -> None:
    points = 0
    for number in count(1):
        outcome = check(LIFE, seed=1, plan=FaultPlan((Crash(who, number, 2.0),), 0.01))
        if not any("crashed" in entry.what for entry in outcome.history.entries if isinstance(entry, Noted)):
            break
        points = number
    assert points >= least, "fewer writes than the work takes: the crashes missed it"


@pytest.mark.req("T42")
@pytest.mark.parametrize("seed", seeds(8))
def test_trouble_of_every_kind_is_got_over(seed: int) -> None:
    check(LIFE, seed=seed, plan=draw(seed, ROUGH))


@pytest.mark.req("T42.PC38")
@pytest.mark.parametrize("seed", seeds(6))
def test_two_controllers_at_once_do_no_harm(seed: int) -> None:
    check(LIFE, seed=seed, plan=draw(seed, TWINS))
