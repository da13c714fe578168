"""Token: `serviceaccounts/{name}/token`, a new token for a service account. What `kubectl create token` asks for."""

from collections.abc import Mapping
from functools import partial
from typing import Any, Final

import msgspec

from mooring.api.errors import BadRequest, NotImplementedHere, conflict, invalid, not_found
from mooring.api.field_errors import bad_value
from mooring.api.kinds import NODE, POD, SECRET, SERVICE_ACCOUNT, Kind
from mooring.api.timestamps import to_time
from mooring.api.views.meta import ApiObject
from mooring.server.body import Body, meta, part
from mooring.server.contract import Target, WriteOptions, Written
from mooring.server.decoding import Undecodable, decode
from mooring.server.environment import Environment
from mooring.server.verbs.create import CREATED

TOKEN: Final = "token"
_API_VERSION: Final = "authentication.k8s.io/v1"
_GROUP: Final = "authentication.k8s.io"
_KIND: Final = "TokenRequest"

#: How long a token lives that does not say; upstream's figures, these and the bounds.
DEFAULT_SECONDS: Final = 3600
SHORTEST_SECONDS: Final = 600
LONGEST_SECONDS: Final = 1 << 32

#: What a token can be bound to, and the claim it becomes.
_BOUND: Final[Mapping[tuple[str, str], tuple[str, Kind[Any]]]] = {
    ("v1", "Pod"): ("pod", POD),
    ("v1", "Secret"): ("secret", SECRET),
    ("v1", "Node"): ("node", NODE),
}


async def create_token(
    environment: Environment, target: Target, body: Mapping[str, Any], options: WriteOptions
) -> Written:
    """`target` is the service account."""
    issuer = environment.security.accounts
    if issuer is None:
        raise NotImplementedHere("this server has no key to sign service account tokens with")
    request, warnings = await environment.run(partial(_read, body, options), options.body_bytes)
    _check(target, request)
    spec = part(request, "spec")
    account = await environment.objects.view(SERVICE_ACCOUNT, target.namespace, target.name)
    if account is None:
        raise not_found(SERVICE_ACCOUNT.plural, target.name)
    reference = spec.get("boundObjectRef")
    bound = {} if reference is None else await _bound(environment, account, reference)
    audiences, seconds = spec.get("audiences") or issuer.audiences, spec.get("expirationSeconds", DEFAULT_SECONDS)
    issued = issuer.issue(account, audiences=audiences, seconds=seconds, token_id=environment.new_uid(), bound=bound)
    answer = {
        "kind": _KIND,
        "apiVersion": _API_VERSION,
        "metadata": {
            "name": account.name,
            "namespace": account.namespace,
            "uid": account.uid,
            "creationTimestamp": environment.now(),
        },
        "spec": {"audiences": audiences, "expirationSeconds": seconds, "boundObjectRef": reference},
        "status": {"token": issued.token, "expirationTimestamp": to_time(issued.expires)},
    }
    return Written(msgspec.json.encode(answer), CREATED, warnings)


def _read(body: Mapping[str, Any], options: WriteOptions) -> tuple[Body, tuple[str, ...]]:
    try:
        return decode(_API_VERSION, _KIND, body, options.field_validation)
    except Undecodable as problem:
        raise BadRequest(f'TokenRequest in version "v1" cannot be handled as a TokenRequest: {problem}') from problem


def _check(target: Target, request: Body) -> None:
    """Raises Invalid."""
    for field, wanted, whose in (("name", target.name, "name"), ("namespace", target.namespace, "namespace")):
        given = meta(request).get(field, wanted)
        if given != wanted:
            cause = bad_value(f"metadata.{field}", given, f"must match the service account {whose} if specified")
            raise invalid(_KIND, target.name, [cause], group=_GROUP)
    seconds, path = part(request, "spec").get("expirationSeconds", DEFAULT_SECONDS), "spec.expirationSeconds"
    if seconds < SHORTEST_SECONDS:
        cause = bad_value(path, seconds, "may not specify a duration less than 10 minutes")
    elif seconds > LONGEST_SECONDS:
        cause = bad_value(path, seconds, "may not specify a duration larger than 2^32 seconds")
    else:
        return
    raise invalid(_KIND, meta(request).get("name", ""), [cause], group=_GROUP)


async def _bound(environment: Environment, account: ApiObject, reference: Body) -> dict[str, ApiObject]:
    """What the token shall not outlive: the object named, and with a pod the node it is on."""
    version, kind_name, name = (reference.get(field, "") for field in ("apiVersion", "kind", "name"))
    if (version, kind_name) not in _BOUND:
        raise BadRequest(f"cannot bind token to object of type /{version}, Kind={kind_name}")
    claim, kind = _BOUND[version, kind_name]
    found = await environment.objects.find(kind, account.namespace if kind.namespaced else "", name)
    if found is None:
        raise not_found(kind.plural, name)
    view: ApiObject = kind.decode(found.body)
    uid = reference.get("uid", "")
    if uid not in ("", view.uid):
        why = (
            f"the UID in the bound object reference ({uid}) does not match the UID in record. "
            "The object might have been deleted and then recreated"
        )
        raise conflict(kind.kind, name, why)
    bound = {claim: view}
    if kind is POD:
        spec = part(found.decode(), "spec")
        if spec.get("serviceAccountName", "") != account.name:
            raise BadRequest(
                f'cannot bind token for serviceaccount "{account.name}" to pod running with different '
                "serviceaccount name."
            )
        node = await environment.objects.view(NODE, "", spec["nodeName"]) if spec.get("nodeName") else None
        if node is not None:
            bound["node"] = node
    return bound
