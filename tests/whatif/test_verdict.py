"""The sentence an answer begins with."""

import pytest

from mooring.whatif.results import (
    BlockedEviction,
    LostPod,
    PendingPod,
    Placement,
    Shortfall,
    SimulationResult,
    all_run,
    is_good,
    verdict,
)

PLACED = Placement("default/a", "n1")
WAITS = PendingPod("default/b", "no room")
WAITED = PendingPod("default/c", "no room", already=True)


def result(**parts: object) -> SimulationResult:
    return SimulationResult("", True, 0.0, **parts)


@pytest.mark.parametrize(
    ("parts", "want"),
    [
        pytest.param({}, "No pod needs to be scheduled, and none stays pending.", id="nothing"),
        pytest.param({"placements": (PLACED,)}, "The pod is scheduled.", id="one pod"),
        pytest.param({"placements": (PLACED,) * 3}, "All 3 pods are scheduled.", id="all pods"),
        pytest.param({"pending": (WAITS,)}, "1 pod stays pending.", id="one waits"),
        pytest.param(
            {"placements": (PLACED,), "pending": (WAITS, WAITED)},
            "1 of 2 pods are scheduled; 1 pod stays pending, and 1 pod stays pending as before.",
            id="some wait, one did before",
        ),
        pytest.param(
            {"placements": (PLACED,), "pending": (WAITED,)},
            "The pod is scheduled; 1 pod stays pending as before.",
            id="one waits as before",
        ),
        pytest.param(
            {"pending": (WAITED,), "shortfalls": (Shortfall("statefulset/default/x", 5, 3, already=True),)},
            "No pod becomes pending; 1 pod stays pending and 2 pods are not created as before.",
            id="nothing changes",
        ),
        pytest.param(
            {"placements": (PLACED,), "shortfalls": (Shortfall("statefulset/default/x", 5, 3),)},
            "The pod is scheduled; 2 pods are not created.",
            id="some are not made",
        ),
        pytest.param(
            {"blocked": (BlockedEviction("default/a", "n1", "budget"),)},
            "1 pod does not leave its node.",
            id="one does not leave",
        ),
        pytest.param(
            {"pending": (WAITS,), "lost": (LostPod("default/a", "n1", "x"),) * 2},
            "1 pod stays pending and 2 pods are lost.",
            id="one waits, two are lost",
        ),
    ],
)
def test_it_says_what_matters_most(parts: dict[str, object], want: str) -> None:
    found = result(**parts)
    assert verdict(found) == want
    assert all_run(found) == (parts.keys() <= {"placements"})
    newly = [each for each in (*found.pending, *found.shortfalls) if not each.already]
    assert is_good(found) == (not newly and not found.blocked and not found.lost)
