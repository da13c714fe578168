"""`mooring simulate` says what then happens: random clusters and changes, predicted and carried out.

Carried out in the simulated cluster; `tests/e2e/scheduling/test_predictions.py` does the same in the embedded one.
"""

import pytest
from structlog.testing import capture_logs

from support.simulation.scenarios import seeds
from support.whatif import predictions

CHANGES = 3
#: Time that began before the figures were requested: which pods of a Deployment go, and room that was promised twice.
FOUND = (130, 368)


@pytest.mark.parametrize("seed", sorted({*seeds(16), *FOUND}))
def test_what_is_predicted_happens(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    draws = predictions.Draws(monkeypatch)
    with capture_logs():
        found = predictions.cases(seed, CHANGES)
    for case in found:
        predictions.compare(case, draws)
