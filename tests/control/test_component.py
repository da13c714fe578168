"""Rights that are missing are logged once each, with the rule to add, and again while that goes on."""

from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from structlog.testing import capture_logs

from mooring.api.errors import Forbidden
from mooring.control.component import REMINDER_SECONDS, PermissionErrorReporter
from mooring.whatif import virtual_time
from mooring.whatif.virtual_time import VirtualClock


def refusal(verb: str, resource: str = "pods") -> Forbidden:
    return Forbidden(f'User "u" cannot {verb} resource "{resource}" in API group "" at the cluster scope')


async def _logged_warnings(clock: VirtualClock, registry: CollectorRegistry) -> list[Any]:
    watch = PermissionErrorReporter(clock, registry)
    with capture_logs() as logged:
        for verb in ("watch", "list", "watch", "patch"):
            watch.refused(refusal(verb))
        watch.refused(Forbidden("exceeded quota"))
        await clock.sleep(REMINDER_SECONDS)
        watch.refused(refusal("patch"))
    return logged


@pytest.mark.req("T32.message")
def test_each_missing_permission_is_logged_once_and_again_later() -> None:
    registry = CollectorRegistry()
    logged = virtual_time.run_in_virtual_time(lambda clock: _logged_warnings(clock, registry))
    assert [(line["log_level"], line["event"], line["rule"]) for line in logged] == [
        ("error", "permission denied", '{apiGroups: [""], resources: ["pods"], verbs: [list, watch]}'),
        ("error", "permission denied", '{apiGroups: [""], resources: ["pods"], verbs: [patch]}'),
        ("error", "permission denied", '{apiGroups: [""], resources: ["pods"], verbs: [patch]}'),
    ]
    counted = {"group": "", "resource": "pods", "verb": "list,watch"}
    assert registry.get_sample_value("mooring_missing_rights_total", counted) == 3.0
