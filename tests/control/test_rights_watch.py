"""Rights that are missing are told once each, with the rule to add, and again while that goes on."""

from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from structlog.testing import capture_logs

from mooring.api.errors import Forbidden
from mooring.control.rights_watch import REMINDER_SECONDS, RightsWatch
from mooring.sim import loop
from mooring.sim.loop import VirtualClock


def refusal(verb: str, resource: str = "pods") -> Forbidden:
    return Forbidden(f'User "u" cannot {verb} resource "{resource}" in API group "" at the cluster scope')


async def _hear(clock: VirtualClock, registry: CollectorRegistry) -> list[Any]:
    watch = RightsWatch(clock, registry)
    with capture_logs() as told:
        for verb in ("watch", "list", "watch", "patch"):
            watch.refused(refusal(verb))
        watch.refused(Forbidden("exceeded quota"))
        await clock.sleep(REMINDER_SECONDS)
        watch.refused(refusal("patch"))
    return told


@pytest.mark.req("T32.message")
def test_each_right_is_told_once_and_again_later() -> None:
    registry = CollectorRegistry()
    told = loop.run(lambda clock: _hear(clock, registry))
    assert [(line["log_level"], line["event"], line["rule"]) for line in told] == [
        ("error", "missing right", '{apiGroups: [""], resources: ["pods"], verbs: [list, watch]}'),
        ("error", "missing right", '{apiGroups: [""], resources: ["pods"], verbs: [patch]}'),
        ("error", "missing right", '{apiGroups: [""], resources: ["pods"], verbs: [patch]}'),
    ]
    counted = {"group": "", "resource": "pods", "verb": "list,watch"}
    assert registry.get_sample_value("mooring_missing_rights_total", counted) == 3.0
