"""Defaults of StatefulSets."""

from typing import Final

from mooring.server.body import Body, rows
from mooring.server.defaulting.claim import default_claim_template
from mooring.server.defaulting.pod import default_template

ROLLING_UPDATE: Final = "RollingUpdate"


def default_stateful_set(obj: Body) -> None:
    spec = obj["spec"]
    spec.setdefault("replicas", 1)
    spec.setdefault("podManagementPolicy", "OrderedReady")
    spec.setdefault("revisionHistoryLimit", 10)
    strategy = spec.setdefault("updateStrategy", {})
    strategy.setdefault("type", ROLLING_UPDATE)
    if strategy["type"] == ROLLING_UPDATE:
        strategy.setdefault("rollingUpdate", {}).setdefault("partition", 0)
    retention = spec.setdefault("persistentVolumeClaimRetentionPolicy", {})
    retention.setdefault("whenDeleted", "Retain")
    retention.setdefault("whenScaled", "Retain")
    default_template(spec.setdefault("template", {}))
    for template in rows(spec, "volumeClaimTemplates"):
        default_claim_template(template)
