"""DefaultTolerationSeconds: a pod stays five minutes on a node that is not ready or cannot be reached."""

from typing import Final

from mooring.api.keys import NOT_READY, UNREACHABLE
from mooring.server.admission.review import Review
from mooring.server.body import Body

#: Upstream's figure.
_SECONDS: Final = 300
_NO_EXECUTE: Final = "NoExecute"


async def tolerate_lost_nodes(review: Review) -> None:
    spec = review.new["spec"]
    tolerations: list[Body] = spec.get("tolerations", [])
    missing = [
        {"key": key, "operator": "Exists", "effect": _NO_EXECUTE, "tolerationSeconds": _SECONDS}
        for key in (NOT_READY, UNREACHABLE)
        if not any(_speaks_of(toleration, key) for toleration in tolerations)
    ]
    if missing:
        spec["tolerations"] = tolerations + missing


def _speaks_of(toleration: Body, key: str) -> bool:
    """Whether the author has already said how long to stay; an empty key or effect means any."""
    about, effect = toleration.get("key", key), toleration.get("effect", _NO_EXECUTE)
    return bool(about == key and effect == _NO_EXECUTE)
