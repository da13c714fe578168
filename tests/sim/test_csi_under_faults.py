"""Volumes of a CSI driver come and go while everybody fails: none is leaked, none is lost, all figures are true."""

from itertools import count

import pytest

from mooring.cluster.bootstrap import Layout
from mooring.csi.contract import Code
from mooring.sim.faults import BadCall, BadRpc, Crash, DriverTrouble, Fault, FaultPlan, Trouble
from mooring.sim.hazards import draw
from mooring.sim.history import Noted
from mooring.sim.trial import check
from sim.csi_trials import PROVISIONER, ROUGH, TWICE, Tenants, honest, roomy, tenants
from sim.trials import seeds

#: Two pods, of which the second waits for the first to be over with.
TWO = Tenants(Layout(nodes=2, local_volumes=0), 10, 10, ((("fast", 6), ("fast", 2)), (("slow", 5),)), 0.0)


def strikes(*faults: Fault) -> int:
    """Run the two pods under these faults; how many of them struck."""
    outcome = check(TWO.trial(all_run=True), seed=1, plan=FaultPlan(faults, 0.01))
    told = [entry.what for entry in outcome.history.entries if isinstance(entry, Noted)]
    return sum(what != "calm" for what in told)


@pytest.mark.req("R4.crashes")
def test_a_crash_of_the_provisioner_after_any_write_is_made_good() -> None:
    """What it has the driver do is a write too."""
    points = next(n for n in count(1) if not strikes(Crash(PROVISIONER, n, 2.0))) - 1
    assert points >= 10, "three volumes, their objects, and figures for two nodes and two classes"


@pytest.mark.req("R4.answers")
@pytest.mark.parametrize("trouble", [trouble for trouble in DriverTrouble if trouble is not DriverTrouble.REFUSED])
def test_any_call_of_the_driver_may_go_wrong(trouble: DriverTrouble) -> None:
    for rpc in ("create_volume", "get_capacity"):
        assert strikes(BadRpc(PROVISIONER, rpc, 1, trouble, seconds=12.0)), rpc


@pytest.mark.req("R4.answers")
@pytest.mark.parametrize("code", Code)
def test_a_driver_may_refuse_with_any_code(code: Code) -> None:
    refusals = [BadRpc(PROVISIONER, "create_volume", n, DriverTrouble.REFUSED, code) for n in (1, 2)]
    assert strikes(*refusals)


def test_a_volume_that_has_its_object_is_not_deleted_for_what_a_driver_says_later() -> None:
    """1. The object is written, and the answer lost. 2. Asked again, the driver names another size."""
    nonsense = [BadRpc(PROVISIONER, "create_volume", n, DriverTrouble.WRONG) for n in (4, 5)]
    calls = next(n for n in count(1) if not strikes(BadCall(PROVISIONER, n, Trouble.LOST_ANSWER), *nonsense)) - 1
    assert calls >= 10, "fewer requests than the work takes"


@pytest.mark.parametrize("seed", seeds(8))
def test_pods_with_room_for_all_run(seed: int) -> None:
    check(roomy(seed).trial(all_run=True), seed=seed, plan=draw(seed, ROUGH))


@pytest.mark.req("C9", "C19")
@pytest.mark.parametrize("seed", seeds(8))
def test_pods_with_little_room_are_placed_as_far_as_they_can_be(seed: int) -> None:
    check(tenants(seed).trial(), seed=seed, plan=draw(seed, ROUGH))


@pytest.mark.req("C8", "C19")
@pytest.mark.parametrize("seed", seeds(8))
def test_what_is_deleted_at_any_moment_leaves_nothing_behind(seed: int) -> None:
    chosen = tenants(seed)
    check(chosen.trial(), seed=seed, plan=draw(seed, chosen.leaving(ROUGH)))


@pytest.mark.req("R4.two-provisioners")
@pytest.mark.parametrize("seed", seeds(8))
def test_two_provisioners_make_each_volume_once_and_leave_nothing_behind(seed: int) -> None:
    chosen = tenants(seed)
    check(chosen.trial(), seed=seed, plan=honest(draw(seed, chosen.leaving(TWICE))))
