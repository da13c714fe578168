"""The part of metadata that belongs to the server: who an object is, when it came, which version of its spec it has.

What a client sends there is refilled or ignored as upstream does. Who owns which field is recorded by `owners`.
"""

from typing import Any, Final

from mooring.api.errors import BadRequest
from mooring.api.kinds import CSI_DRIVER, DAEMON_SET, DEPLOYMENT, Kind
from mooring.server.body import Body, meta, part
from mooring.server.contract import Target
from mooring.server.environment import Environment

_NEVER_KEPT: Final = "selfLink"
_NOT_OURS_TO_CREATE: Final = (
    _NEVER_KEPT,
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
    "managedFields",
)

#: What a change of counts: the spec, and what PodTemplates have instead of one.
_COUNTED: Final = ("spec", "template")
_TEMPLATE_GENERATION: Final = "deprecated.daemonset.template.generation"


def place(obj: Body, target: Target) -> None:
    """Puts the object into the namespace of the request; BadRequest where it says another."""
    metadata = meta(obj)
    if metadata.get("namespace", target.namespace) != target.namespace:
        raise BadRequest("the namespace of the provided object does not match the namespace sent on the request")
    if target.kind.namespaced:
        if not target.namespace:
            raise BadRequest("an empty namespace may not be set during creation")
        metadata["namespace"] = target.namespace


def check_name(obj: Body, target: Target) -> None:
    """An update or a patch is about the object its URL names."""
    name = meta(obj).get("name")
    if not name:
        raise BadRequest(
            f"the name of the object ({target.name} based on URL) was undeterminable: name must be provided"
        )
    if name != target.name:
        raise BadRequest(f"the name of the object ({name}) does not match the name on the URL ({target.name})")


def fill_new(kind: Kind[Any], obj: Body, environment: Environment) -> None:
    """Identity and age of an object that is about to be created."""
    metadata = meta(obj)
    for field in _NOT_OURS_TO_CREATE:
        metadata.pop(field, None)
    metadata["uid"] = environment.new_uid()
    metadata["creationTimestamp"] = environment.now()
    if kind.has_generation:
        metadata["generation"] = 1


def carry_over(new: Body, old: Body) -> None:
    """What an update cannot change is what it was; a client may leave it out. Attempts to set a uid or a deletion
    that is not there are left for validation to refuse."""
    now, was = meta(new), meta(old)
    now.pop(_NEVER_KEPT, None)
    for field in ("creationTimestamp", "generation", "resourceVersion"):
        _copy(field, was, now)
    now.setdefault("uid", was["uid"])
    if "deletionTimestamp" in was:
        _copy("deletionTimestamp", was, now)
    if "deletionGracePeriodSeconds" in was:
        now.setdefault("deletionGracePeriodSeconds", was["deletionGracePeriodSeconds"])


def count_generation(kind: Kind[Any], new: Body, old: Body) -> None:
    """`generation` says how often the spec was changed."""
    if kind.has_generation and any(new.get(field) != old.get(field) for field in _COUNTED):
        meta(new)["generation"] = meta(old).get("generation", 0) + 1
    elif kind is CSI_DRIVER and new.get("spec") != old.get("spec"):
        # Upstream's other exception: nothing at first, and counted from the first change on.
        meta(new)["generation"] = meta(old).get("generation", 0) + 1
    elif kind is DEPLOYMENT and meta(new).get("annotations") != meta(old).get("annotations"):
        # Upstream's exception: annotations of a Deployment are copied to its ReplicaSets.
        meta(new)["generation"] = meta(old).get("generation", 0) + 1


def count_template(kind: Kind[Any], new: Body, old: Body | None) -> None:
    """DaemonSets also count changes of their template, in an annotation that clients have no say in."""
    if kind is not DAEMON_SET:
        return
    was = 0 if old is None else int(part(meta(old), "annotations").get(_TEMPLATE_GENERATION, 0))
    changed = old is None or new["spec"].get("template") != old["spec"].get("template")
    annotations = meta(new).setdefault("annotations", {})
    annotations[_TEMPLATE_GENERATION] = str(max(was + 1 if changed else was, 1))


def _copy(field: str, source: Body, into: Body) -> None:
    if field in source:
        into[field] = source[field]
    else:
        into.pop(field, None)
