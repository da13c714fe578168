"""The sentence an answer begins with."""

import pytest

from mooring.sim.whatif.outcome import Blocked, Lost, Outcome, Pending, Placement, Shortfall
from mooring.sim.whatif.verdict import is_good, verdict

PLACED = Placement("default/a", "n1")
WAITS = Pending("default/b", "no room")
WAITED = Pending("default/c", "no room", already=True)


def outcome(**parts: object) -> Outcome:
    return Outcome("", True, 0.0, **parts)


@pytest.mark.parametrize(
    ("parts", "want"),
    [
        pytest.param({}, "Nothing has to be placed, and nothing stays pending.", id="nothing"),
        pytest.param({"placements": (PLACED,)}, "The one pod to place finds a place.", id="one pod"),
        pytest.param({"placements": (PLACED,) * 3}, "All 3 pods to place find a place.", id="all pods"),
        pytest.param({"pending": (WAITS,)}, "1 pod stays pending.", id="one waits"),
        pytest.param(
            {"placements": (PLACED,), "pending": (WAITS, WAITED)},
            "1 of 3 pods find a place; 2 pods stay pending (1 did before).",
            id="some wait, one did before",
        ),
        pytest.param(
            {"placements": (PLACED,), "shortfalls": (Shortfall("statefulset/default/x", 5, 3),)},
            "The one pod to place finds a place; 2 pods are not even made.",
            id="some are not made",
        ),
        pytest.param(
            {"blocked": (Blocked("default/a", "n1", "budget"),)},
            "1 pod does not leave its node.",
            id="one does not leave",
        ),
        pytest.param(
            {"pending": (WAITS,), "lost": (Lost("default/a", "n1", "x"),) * 2},
            "1 pod stays pending and 2 pods are lost.",
            id="one waits, two are lost",
        ),
    ],
)
def test_it_says_what_matters_most(parts: dict[str, object], want: str) -> None:
    found = outcome(**parts)
    assert verdict(found) == want
    assert is_good(found) == (parts.keys() <= {"placements"})
