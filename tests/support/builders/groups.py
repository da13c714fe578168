"""PodGroups and their members: `pod_group_body` and `member_body` are dicts, `a_pod_group` and `a_member` views."""

from collections.abc import Sequence
from typing import Any

from mooring.api import kinds
from support.builders.objects import Body, metadata, viewed
from support.builders.pods import pod_body


def pod_group_body(
    *,
    name: str = "g",
    namespace: str = "default",
    min_count: int = 3,
    basic: bool = False,
    topology: str = "",
    priority: int | None = None,
    disrupted_together: bool = False,
    conditions: Sequence[Body] = (),
    uid: str = "",
    version: str = "",
    finalizers: Sequence[str] = (),
    deleting: bool = False,
    more_spec: Body | None = None,
) -> Body:
    """A gang of `min_count`, or a basic group; `topology` is the key of its constraint."""
    spec: Body = {
        "schedulingPolicy": {"basic": {}} if basic else {"gang": {"minCount": min_count}},
        **(more_spec or {}),
    }
    if topology:
        spec["schedulingConstraints"] = {"topology": [{"key": topology}]}
    if disrupted_together:
        spec["disruptionMode"] = {"all": {}}
    if priority is not None:
        spec["priority"] = priority
    body: Body = {
        "apiVersion": kinds.POD_GROUP.api_version,
        "kind": kinds.POD_GROUP.kind,
        "metadata": metadata(
            name=name, namespace=namespace, uid=uid, version=version, finalizers=finalizers, deleting=deleting
        ),
        "spec": spec,
    }
    if conditions:
        body["status"] = {"conditions": list(conditions)}
    return body


def member_body(*, group: str = "g", more_spec: Body | None = None, **of_pod: Any) -> Body:  # noqa: ANN401
    """A pod of the group, with the arguments of `pod_body`."""
    return pod_body(**of_pod, more_spec={"schedulingGroup": {"podGroupName": group}, **(more_spec or {})})


a_pod_group = viewed(kinds.POD_GROUP, pod_group_body)
a_member = viewed(kinds.POD, member_body)
