"""One row of Kubernetes' own tables for the PV controller: state before, state after, and events.

A row is run twice: one sync of one object, and syncs of all objects until they converge.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import NamedTuple

import pytest
from _pytest.mark import ParameterSet

from mooring.api import well_known
from mooring.api.kinds import CLAIM, VOLUME
from mooring.api.views.pods import Pod
from support.builders import Body, claim_body, claim_ref, volume_body
from support.pvcontroller.fake_cluster import FakeCluster

RWO, ROX, RWX = "ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany"
BY_CTRL = {well_known.BOUND_BY_CONTROLLER: well_known.ANNOTATION_SET}

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
    #: States as `FakeCluster` formats them, by name, after one sync of claim-1 or volume-1.
    expected: Mapping[str, str]
    events: Sequence[str] = ()
    #: What differs after all objects have converged.
    settled: Mapping[str, str] | None = None
    pods: Sequence[Pod] = ()


def row(
    number: str,
    bodies: Sequence[Body],
    expected: Mapping[str, str],
    events: Sequence[str] = (),
    settled: Mapping[str, str] | None = None,
    pods: Sequence[Pod] = (),
) -> ParameterSet:
    """A row with the number and title of the upstream table."""
    return pytest.param(Case(bodies, expected, events, settled, pods), id=number)


def check_claim(case: Case, *, settled: bool) -> None:
    _check(case, settled=settled, claim=True)


def check_volume(case: Case, *, settled: bool) -> None:
    _check(case, settled=settled, claim=False)


def _check(case: Case, *, settled: bool, claim: bool) -> None:
    cluster = FakeCluster(*case.bodies, pods=case.pods)
    emitted = cluster.settle(CLAIM, "default/claim-1") if claim else cluster.settle(VOLUME, "volume-1")
    assert {name: words for name, words in cluster.state().items() if name in case.expected} == case.expected
    assert emitted == list(case.events)
    if settled:
        cluster.settle_all()
        expected = dict(case.expected) | dict(case.settled or {})
        assert {name: words for name, words in cluster.state().items() if name in expected} == expected
