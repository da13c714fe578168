"""Scale: how many replicas a workload has, in the one shape that is the same for all of them.

What `kubectl scale` and autoscalers use. A Scale is not stored: reading makes it from the object, writing changes the
object's `spec.replicas` and nothing else, through the same checks as any other update.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

import msgspec

from mooring.api import label_selector
from mooring.api.errors import BadRequest, conflict, invalid
from mooring.api.field_errors import bad_value
from mooring.api.patches.contract import Patch
from mooring.api.views.meta import LabelSelectorView
from mooring.server.body import Body, meta, part
from mooring.server.contract import Target, WriteOptions, Written
from mooring.server.decoding import Undecodable, decode
from mooring.server.environment import Environment
from mooring.server.objects import retrying
from mooring.server.replacement import replace
from mooring.server.subresources import require_endpoint
from mooring.server.verbs.patch import patched_as

SCALE: Final = "scale"
_API_VERSION: Final = "autoscaling/v1"
_KIND: Final = "Scale"
#: What a Scale shows of its object's metadata.
_IDENTITY: Final = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")


async def get_scale(environment: Environment, target: Target) -> bytes:
    require_endpoint(target, "get")
    return msgspec.json.encode(_scale_of((await environment.objects.require(target)).decode()))


async def update_scale(
    environment: Environment, target: Target, body: Mapping[str, Any], options: WriteOptions
) -> Written:
    require_endpoint(target, "update")
    try:
        read = partial(decode, _API_VERSION, _KIND, body, options.field_validation)
        given, warnings = await environment.run(read, options.body_bytes)
    except Undecodable as problem:
        raise BadRequest(f'Scale in version "v1" cannot be handled as a Scale: {problem}') from problem
    if meta(given).get("name") not in (None, target.name):
        raise BadRequest("the name of the object does not match the name on the URL")
    return await _write(environment, target, lambda _: (given, warnings), options)


async def patch_scale(environment: Environment, target: Target, patch: Patch, options: WriteOptions) -> Written:
    require_endpoint(target, "patch")
    validation = options.field_validation
    return await _write(
        environment, target, lambda scale: patched_as(_API_VERSION, _KIND, scale, patch, validation), options
    )


async def _write(
    environment: Environment,
    target: Target,
    change: Callable[[Body], tuple[Body, tuple[str, ...]]],
    options: WriteOptions,
) -> Written:
    whole = Target(target.kind, target.namespace, target.name)

    async def attempt() -> Written:
        stored = await environment.objects.require(whole)
        old = stored.decode()
        wanted, warnings = change(_scale_of(old))
        _check(whole, wanted, old)
        new = old | {"metadata": dict(meta(old)), "spec": old["spec"] | {"replicas": _replicas(target, wanted)}}
        written = await replace(environment, whole, stored, old, new, options, warnings=warnings, through=SCALE)
        scale = _scale_of(msgspec.json.decode(written.body))
        return Written(msgspec.json.encode(scale), written.code, written.warnings)

    return await retrying(whole, attempt)


def _check(target: Target, wanted: Body, old: Body) -> None:
    """A version or uid in the Scale says what the writer believes to change."""
    for field in ("resourceVersion", "uid"):
        if meta(wanted).get(field) not in (None, "", meta(old)[field]):
            raise conflict(target.kind.plural, target.name, group=target.kind.group)


def _replicas(target: Target, wanted: Body) -> int:
    replicas = part(wanted, "spec").get("replicas", 0)
    assert isinstance(replicas, int)
    if replicas < 0:
        cause = bad_value("spec.replicas", replicas, "must be greater than or equal to 0")
        raise invalid(_KIND, target.name, [cause], group="autoscaling")
    return replicas


def _scale_of(obj: Body) -> Body:
    view = msgspec.convert(part(obj, "spec").get("selector", {}), LabelSelectorView)
    selector = label_selector.from_view(view.match_labels, view.match_expressions)
    return {
        "kind": _KIND,
        "apiVersion": _API_VERSION,
        "metadata": {field: meta(obj)[field] for field in _IDENTITY if field in meta(obj)},
        "spec": {"replicas": part(obj, "spec").get("replicas", 1)},
        "status": {"replicas": part(obj, "status").get("replicas", 0), "selector": str(selector)},
    }
