"""Defaults of workloads: StatefulSets, Deployments, ReplicaSets, DaemonSets."""

from typing import Final

from mooring.server.body import Body, meta, part, rows
from mooring.server.defaulting.claim import default_claim_template
from mooring.server.defaulting.pod import default_template

ROLLING_UPDATE: Final = "RollingUpdate"
#: How many old revisions are kept for `kubectl rollout undo`.
_HISTORY: Final = 10
#: How many pods a Deployment may lack, and have too many of, while it rolls.
_SHARE: Final = "25%"
#: Seconds without progress after which a Deployment calls itself stuck.
_DEADLINE: Final = 600


def default_stateful_set(obj: Body) -> None:
    spec = obj["spec"]
    spec.setdefault("replicas", 1)
    spec.setdefault("podManagementPolicy", "OrderedReady")
    spec.setdefault("revisionHistoryLimit", _HISTORY)
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


def default_deployment(obj: Body) -> None:
    spec = obj["spec"]
    spec.setdefault("replicas", 1)
    spec.setdefault("revisionHistoryLimit", _HISTORY)
    spec.setdefault("progressDeadlineSeconds", _DEADLINE)
    _default_rolling(spec.setdefault("strategy", {}), unavailable=_SHARE, surge=_SHARE)
    default_template(spec.setdefault("template", {}))


def default_replica_set(obj: Body) -> None:
    spec = obj["spec"]
    spec.setdefault("replicas", 1)
    default_template(spec.setdefault("template", {}))


def default_daemon_set(obj: Body) -> None:
    spec = obj["spec"]
    spec.setdefault("revisionHistoryLimit", _HISTORY)
    _default_rolling(spec.setdefault("updateStrategy", {}), unavailable=1, surge=0)
    default_template(spec.setdefault("template", {}))


def default_replication_controller(obj: Body) -> None:
    """The oldest of them takes its selector and its own labels from the template."""
    spec = obj["spec"]
    spec.setdefault("replicas", 1)
    if labels := part(spec, "template", "metadata").get("labels"):
        spec.setdefault("selector", labels)
        meta(obj).setdefault("labels", labels)
    if "template" in spec:
        default_template(spec["template"])


def default_pod_template(obj: Body) -> None:
    default_template(obj.setdefault("template", {}))


def _default_rolling(strategy: Body, *, unavailable: int | str, surge: int | str) -> None:
    strategy.setdefault("type", ROLLING_UPDATE)
    if strategy["type"] == ROLLING_UPDATE:
        rolling = strategy.setdefault("rollingUpdate", {})
        rolling.setdefault("maxUnavailable", unavailable)
        rolling.setdefault("maxSurge", surge)
