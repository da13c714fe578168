"""Result types of `mooring explain`, as `-o json` prints them, and `Message`, a row of the message table."""

import re
from functools import cached_property
from typing import Any, Final

import msgspec

#: What stands for a name or a number in a text: `<claim>`.
_HOLE: Final = re.compile(r"<[a-z ]+>")


class Message(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """A message of a component. `text` is the current wording, `older_texts` those of earlier releases."""

    text: str
    source: str
    meaning: str
    action: str
    older_texts: tuple[str, ...] = ()

    @property
    def anchor(self) -> str:
        """Its place on the page, as headings are linked to."""
        return re.sub(r"[^a-z0-9 _-]", "", self.text.lower()).replace(" ", "-")

    @cached_property
    def patterns(self) -> tuple[re.Pattern[str], ...]:
        return tuple(_pattern(text) for text in (self.text, *self.older_texts))


def _pattern(text: str) -> re.Pattern[str]:
    """The text with anything in its holes, but for a hole at its end: another text may begin there."""
    parts = [re.escape(part) for part in _HOLE.split(text)]
    if not parts[0]:
        parts[:2] = [rf"\S+{parts[1]}"]
    if not parts[-1]:
        parts[-2:] = [rf"{parts[-2]}(?=\S)"]
    return re.compile(".+?".join(parts), re.IGNORECASE)


class ExplainStruct(msgspec.Struct, frozen=True, rename="camel"):
    """Options all parts share."""


class Reason(ExplainStruct, frozen=True, omit_defaults=True):
    """What one plugin holds against a pod, in upstream's words; `detail` has what and how much on this node."""

    plugin: str
    reason: str
    detail: str = ""
    #: The reason for programs: a `RejectionCode`; "" of reasons that hold on every node.
    code: str = ""
    #: The resource or the driver that the code is about.
    subject: str = ""

    @property
    def text(self) -> str:
        return f"{self.reason} ({self.detail})" if self.detail else self.reason


class Candidate(ExplainStruct, frozen=True, omit_defaults=True):
    """An existing volume and the first criterion it fails for a claim; "" where other claims of the pod need it."""

    volume: str
    criterion: str
    reason: str
    #: What was requested and what the volume has.
    detail: str = ""
    #: It is Released, and would do if its claimRef were removed.
    once_cleared: bool = False


class CapacityReport(ExplainStruct, frozen=True, omit_defaults=True):
    """What a CSIStorageCapacity says to a claim on a node, and what is wrong with it; "" where nothing is."""

    #: `namespace/name`, "" where there is none.
    capacity: str
    problem: str
    detail: str
    #: The labels of the nodes it speaks of.
    segment: str = ""
    #: How much more would have been enough, and the same in bytes.
    missing: str = ""
    missing_bytes: int = 0
    #: The largest volume that could be made there as it is, in bytes.
    largest_bytes: int = 0


class Remedy(ExplainStruct, frozen=True):
    """What would help, tried: with these changes applied to the listed objects, the scheduler finds a node for the pod.

    The text begins with the loss where a step costs something. `changes` are typed values (`cluster_changes`,
    `storage_changes`), each with its `type`; `alternatives` are what the text offers instead, tried as well.
    """

    text: str
    changes: tuple[Any, ...] = ()
    alternatives: tuple[tuple[Any, ...], ...] = ()


class ClaimVerdict(ExplainStruct, frozen=True, omit_defaults=True):
    """What a claim gets on a node.

    `state` is `bound` (it has its volume), `bind` (it would be given this one), `provision` (one would be made) or
    `unserved` (neither). `reason` says why the node does not do for this claim; `failed` counts all volumes by the
    criterion they fail, `candidates` are those that come nearest, `rooms` what drivers report that could make one.
    """

    claim: str
    state: str
    volume: str = ""
    storage_class: str = ""
    reason: str = ""
    #: The reason for programs, as in `Reason`.
    code: str = ""
    detail: str = ""
    candidates: tuple[Candidate, ...] = ()
    failed: dict[str, int] = {}
    capacity_reports: tuple[CapacityReport, ...] = msgspec.field(name="rooms", default=())


class NodeVerdict(ExplainStruct, frozen=True):
    """Whether the pod fits on a node: what every plugin holds against it, and what its claims would get there."""

    fits: bool
    reasons: tuple[Reason, ...]
    volumes: tuple[ClaimVerdict, ...]


class ClaimReport(ExplainStruct, frozen=True, omit_defaults=True):
    """How far a claim has come, whatever the node: one word for programs, one sentence for people.

    `stuck` says that waiting alone will not help. `candidates` and `failed` are of claims that are bound without
    regard to nodes.
    """

    claim: str
    state: str
    verdict: str
    stuck: bool = False
    since: str = ""
    node: str = ""
    volume: str = ""
    #: Of an unreachable volume: the nodes that would reach it and are not ready.
    lost_nodes: tuple[str, ...] = ()
    #: What else is known, a line each.
    notes: tuple[str, ...] = ()
    candidates: tuple[Candidate, ...] = ()
    failed: dict[str, int] = {}
    #: What would help, tried, the nearest first; and the same as changes, for programs.
    remedy_texts: tuple[str, ...] = msgspec.field(name="helps", default=())
    remedies: tuple[Remedy, ...] = ()
    #: Changes that would not be enough, each with what it needs besides.
    not_enough: tuple[str, ...] = ()
    #: What to look at: what no change to the listed objects can answer.
    checks: tuple[str, ...] = ()


class PodVerdict(ExplainStruct, frozen=True):
    """Whether and where a pod fits."""

    pod: str
    #: One sentence with the outcome.
    verdict: str
    #: Reasons against the pod on every node.
    prefilter: tuple[Reason, ...]
    nodes: dict[str, NodeVerdict]
    #: Where the pod is already; the nodes then say how it would be if it were scheduled again.
    node_name: str | None = None
    #: Whether the pod fits on some node and nothing else is in its way, or, if it has a node, whether its volumes can
    #: be used there.
    ok: bool = True
    #: How far its claims have come that are not bound.
    claims: tuple[ClaimReport, ...] = ()
    #: What else is known, a line each.
    notes: tuple[str, ...] = ()
    #: What would help, tried, the nearest first; and the same as changes, for programs.
    remedy_texts: tuple[str, ...] = msgspec.field(name="helps", default=())
    remedies: tuple[Remedy, ...] = ()
    #: Changes that would not be enough, each with what it needs besides.
    not_enough: tuple[str, ...] = ()
    #: What to look at: what no change to the listed objects can answer.
    checks: tuple[str, ...] = ()


class VolumeUser(ExplainStruct, frozen=True, omit_defaults=True):
    """A pod that uses a volume's claim, and where it is."""

    pod: str
    phase: str
    node: str = ""


class PendingClaim(ExplainStruct, frozen=True, omit_defaults=True):
    """A claim that waits, and what a volume is to it: `criterion` is the first it fails, "" where the volume does."""

    claim: str
    criterion: str = ""
    reason: str = ""
    #: What was requested and what the volume has; of one that does, what it still waits for.
    detail: str = ""


class VolumeReport(ExplainStruct, frozen=True, omit_defaults=True):
    """What becomes of a volume: one word for programs, one sentence for people.

    `stuck` says that waiting alone will not help. `takers` are the claims that wait, those it does for first; `failed`
    counts all of them by the criterion it fails.
    """

    volume: str
    state: str
    verdict: str
    stuck: bool = False
    #: Size, class, modes and policy, in a line.
    facts: str = ""
    #: The nodes that reach it, and of how many.
    reached_from: tuple[str, ...] = ()
    nodes: int = 0
    claim: str = ""
    users: tuple[VolumeUser, ...] = ()
    #: What is attached where, a line each.
    attachments: tuple[str, ...] = ()
    pending_claims: tuple[PendingClaim, ...] = msgspec.field(name="takers", default=())
    failed: dict[str, int] = {}
    notes: tuple[str, ...] = ()
    remedy_texts: tuple[str, ...] = msgspec.field(name="helps", default=())


class MemberReport(ExplainStruct, frozen=True, omit_defaults=True):
    """A member of a group. `state` is `bound`, `fits` (a node was found for it), `waits` (beyond the quorum) or
    `rejected`."""

    pod: str
    state: str
    node: str = ""
    #: What its claims would get, a line each.
    volumes: tuple[str, ...] = ()
    #: kube-scheduler's message for a member that finds no node.
    detail: str = ""


class DomainLimit(ExplainStruct, frozen=True, omit_defaults=True):
    """How many members fit at most in a domain of the topology constraint, and what limits them; `domain` is empty for
    a group without constraint."""

    domain: str
    members: int
    needed: int
    limits: tuple[str, ...] = ()


class GroupReport(ExplainStruct, frozen=True, omit_defaults=True):
    """How far a PodGroup has come: one word for programs, one sentence for people.

    `ok` is false where waiting alone will not help.
    """

    group: str
    state: str
    verdict: str
    ok: bool
    min_count: int = 0
    members: tuple[MemberReport, ...] = ()
    #: Per domain, what keeps the members from fitting.
    limits: tuple[DomainLimit, ...] = ()
    lines: tuple[str, ...] = ()
    #: What else is known, a line each.
    notes: tuple[str, ...] = ()
    #: What would help, tried.
    remedy_texts: tuple[str, ...] = msgspec.field(name="helps", default=())
    #: What to look at: what no change to the listed objects can answer.
    checks: tuple[str, ...] = ()


class WorkloadPod(ExplainStruct, frozen=True, omit_defaults=True):
    """A pod of a workload. `state` is `ready`, `succeeded`, `waits` or `stuck`."""

    pod: str
    state: str
    node: str = ""
    verdict: str = ""


class TemplateReport(ExplainStruct, frozen=True, omit_defaults=True):
    """The claims that a StatefulSet made from one of its claim templates."""

    template: str
    storage_class: str = ""
    #: Claims wait for this class, and it does not exist.
    class_missing: bool = False
    bound: int = 0
    #: Claims that are not bound.
    waiting: tuple[str, ...] = ()
    #: Claims of pods beyond the replicas, kept from a larger size.
    kept: tuple[str, ...] = ()


class WorkloadReport(ExplainStruct, frozen=True, omit_defaults=True):
    """How far the pods of a workload have come.

    `ok` is false where waiting alone will not help; `explained` is the pod that matters, None where all are ready.
    """

    #: `statefulset/db`, as it would be asked about.
    workload: str
    namespace: str
    verdict: str
    ok: bool
    desired: int = 0
    ready: int = 0
    pods: tuple[WorkloadPod, ...] = ()
    templates: tuple[TemplateReport, ...] = ()
    explained: PodVerdict | None = None
    notes: tuple[str, ...] = ()


class DriverUse(ExplainStruct, frozen=True, omit_defaults=True):
    """The volumes of one driver on a node, and how many it can have there."""

    driver: str
    used: int
    limit: int


class ResourceUse(ExplainStruct, frozen=True):
    """How much of a resource pods on a node have requested, and how much it has; as Kubernetes writes amounts."""

    resource: str
    requested: str
    allocatable: str


class NodeReport(ExplainStruct, frozen=True):
    """What a node can take and who cannot go there."""

    node: str
    verdict: str
    ok: bool
    resources: tuple[ResourceUse, ...]
    drivers: tuple[DriverUse, ...]
    #: Volumes that no other node can reach.
    volumes: tuple[str, ...]
    capacity_reports: tuple[CapacityReport, ...] = msgspec.field(name="rooms")
    #: By pod that waits for a node: what speaks against this one, nothing where it fits.
    pending: dict[str, tuple[Reason, ...]]
    notes: tuple[str, ...] = ()
    remedy_texts: tuple[str, ...] = msgspec.field(name="helps", default=())
