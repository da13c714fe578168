"""StatefulSets and their pods for tests: `set_body` is the plain dict, `a_set` the view, `its_pod` a pod of the set."""

from collections.abc import Sequence
from typing import Any

from mooring.api import kinds, well_known
from mooring.api.views.pods import Pod
from mooring.api.views.workloads import StatefulSet
from mooring.controllers.workloads.pod_rules import revision_of
from mooring.controllers.workloads.statefulset import pod_body
from support.builders import Body, a_pod, owned_by, viewed

READY: Body = {"type": "Ready", "status": "True"}
LONG_AGO = "2020-01-01T00:00:00Z"


def set_body(
    *,
    name: str = "web",
    replicas: int = 3,
    policy: str = "OrderedReady",
    claims: Sequence[str] = (),
    image: str = "example.com/web:1",
    template: Body | None = None,
    update: str = "RollingUpdate",
    partition: int = 0,
    max_unavailable: int | str | None = None,
    start: int = 0,
    retention: str = "Retain",
    when_scaled: str = "Retain",
    min_ready: int = 0,
    status: Body | None = None,
    uid: str = "",
    deleting: bool = False,
    finalizers: Sequence[str] = (),
) -> Body:
    """Three pods of one container. `claims` names claim templates of 1Gi; `template` is merged over the pod's spec."""
    spec: Body = {"containers": [{"name": "main", "image": image}], **(template or {})}
    meta: Body = {"name": name, "namespace": "default", "generation": 1}
    if uid:
        meta["uid"] = uid
    if deleting:
        meta["deletionTimestamp"] = "2026-01-02T03:04:05Z"
    if finalizers:
        meta["finalizers"] = list(finalizers)
    body: Body = {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": meta,
        "spec": {
            "replicas": replicas,
            "serviceName": "web",
            "podManagementPolicy": policy,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": spec},
            "volumeClaimTemplates": [_claim(claim) for claim in claims],
            "updateStrategy": {"type": update},
            "persistentVolumeClaimRetentionPolicy": {"whenDeleted": retention, "whenScaled": when_scaled},
            "minReadySeconds": min_ready,
        },
    }
    if update == "RollingUpdate":
        body["spec"]["updateStrategy"]["rollingUpdate"] = {"partition": partition}
        if max_unavailable is not None:
            body["spec"]["updateStrategy"]["rollingUpdate"]["maxUnavailable"] = max_unavailable
    if start:
        body["spec"]["ordinals"] = {"start": start}
    if status is not None:
        body["status"] = status
    return body


def _claim(name: str) -> Body:
    return {
        "metadata": {"name": name, "labels": {"kind": "data"}, "annotations": {"note": "kept"}},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
        "status": {"phase": "Pending"},
    }


a_set = viewed(kinds.STATEFUL_SET, set_body)


def its_pod(
    stateful_set: StatefulSet,
    ordinal: int,
    *,
    ready: bool = True,
    phase: str = "Running",
    old: bool = False,
    deleting: bool = False,
    since: str = LONG_AGO,
) -> Pod:
    """A pod created by the set; `old`: from an earlier template; `since`: when it became ready."""
    made = pod_body(stateful_set, ordinal, revision_of(stateful_set))
    labels: dict[str, Any] = made["metadata"]["labels"]
    if old:
        labels[well_known.CONTROLLER_REVISION_HASH] = f"{stateful_set.name}-0000000000"
    owner = owned_by({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "web"}}, uid="web-uid")
    return a_pod(
        name=made["metadata"]["name"],
        labels=labels,
        phase=phase,
        conditions=[READY | {"lastTransitionTime": since}] if ready else [],
        owners=[owner],
        deleting=deleting,
    )
