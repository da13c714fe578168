"""One row of Kubernetes' own tables for the PV controller: state in, state out, and what is said.

A row is run twice: with the machine of one object alone, once through, and with all machines until they rest.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import NamedTuple

import pytest
from _pytest.mark import ParameterSet

from builders import Body, claim_body, claim_ref, volume_body
from mooring.api import keys
from mooring.api.kinds import CLAIM, VOLUME
from mooring.api.views.pod import Pod
from pvcontroller.paper_world import PaperWorld

RWO, ROX, RWX = "ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany"
BY_CTRL = {keys.BOUND_BY_CONTROLLER: keys.YES}

#: Kubernetes' fixtures: two access modes each, 1Gi, and no class unless a row says so.
claim = partial(claim_body, size="1Gi", storage_class="", access_modes=[RWO, ROX])
volume = partial(volume_body, size="1Gi", storage_class="", access_modes=[RWO, ROX])

UID = "claim-1-uid"
NAMED = claim_ref(name="claim-1")
MINE = claim_ref(name="claim-1", uid=UID)
OTHER_UID = claim_ref(name="claim-1", uid="an-earlier-uid")
THEIRS = claim_ref(name="other", uid="other-uid")


class Case(NamedTuple):
    bodies: Sequence[Body]
    #: In the words of `PaperWorld`, by name, after one look at claim-1 or volume-1.
    wanted: Mapping[str, str]
    events: Sequence[str] = ()
    #: What differs once all machines have come to rest.
    settled: Mapping[str, str] | None = None
    pods: Sequence[Pod] = ()


def row(
    number: str,
    bodies: Sequence[Body],
    wanted: Mapping[str, str],
    events: Sequence[str] = (),
    settled: Mapping[str, str] | None = None,
    pods: Sequence[Pod] = (),
) -> ParameterSet:
    """A row under the number and words it has in the tables."""
    return pytest.param(Case(bodies, wanted, events, settled, pods), id=number)


def check_claim(case: Case, *, settled: bool) -> None:
    _check(case, settled=settled, claim=True)


def check_volume(case: Case, *, settled: bool) -> None:
    _check(case, settled=settled, claim=False)


def _check(case: Case, *, settled: bool, claim: bool) -> None:
    world = PaperWorld(*case.bodies, pods=case.pods)
    said = world.settle(CLAIM, "default/claim-1") if claim else world.settle(VOLUME, "volume-1")
    assert {name: words for name, words in world.state().items() if name in case.wanted} == case.wanted
    assert said == list(case.events)
    if settled:
        world.settle_all()
        wanted = dict(case.wanted) | dict(case.settled or {})
        assert {name: words for name, words in world.state().items() if name in wanted} == wanted
