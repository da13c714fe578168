"""What an explanation consists of: plain values, as `-o json` prints them."""

import msgspec


class Part(msgspec.Struct, frozen=True, rename="camel"):
    """Options all parts share."""


class Reason(Part, frozen=True):
    """What one plugin holds against a pod, in upstream's words."""

    plugin: str
    reason: str


class Candidate(Part, frozen=True):
    """An existing volume and the first criterion it fails for a claim; "" where other claims of the pod need it."""

    volume: str
    criterion: str
    reason: str


class ClaimVerdict(Part, frozen=True, omit_defaults=True):
    """What a claim gets on a node.

    `state` is `bound` (it has its volume), `bind` (it would be given this one), `provision` (one would be made) or
    `unserved` (neither). `reason` says why the node does not do for this claim; `failed` counts all volumes by the
    criterion they fail, `candidates` are those that come nearest.
    """

    claim: str
    state: str
    volume: str = ""
    storage_class: str = ""
    reason: str = ""
    candidates: tuple[Candidate, ...] = ()
    failed: dict[str, int] = {}


class NodeVerdict(Part, frozen=True):
    """Whether the pod fits on a node: what every plugin holds against it, and what its claims would get there."""

    fits: bool
    reasons: tuple[Reason, ...]
    volumes: tuple[ClaimVerdict, ...]


class PodVerdict(Part, frozen=True):
    """Whether and where a pod fits."""

    pod: str
    #: One sentence with the outcome.
    verdict: str
    #: Reasons against the pod on every node.
    prefilter: tuple[Reason, ...]
    nodes: dict[str, NodeVerdict]
    #: Where the pod is already; the nodes then say how things would be if it were placed anew.
    node_name: str | None = None
    #: Whether the pod fits on some node, or, if it has one, whether its volumes can be used there.
    ok: bool = True
