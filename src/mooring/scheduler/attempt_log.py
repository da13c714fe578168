"""The last scheduling attempts of each pod, in memory and bounded. Pure; no decision reads it.

Served at `/debug/attempts` and shown by `mooring timeline` beside Events, which merge, expire, and have no scores,
node names or requeue reasons. An attempt is summarised when it is made, so that it keeps no snapshot alive. Pods
that are bound or deleted are dropped first.
"""

from typing import Final

import msgspec

from mooring.api.errors import BadRequest
from mooring.api.health import Query
from mooring.scheduler.framework.interface import Decision
from mooring.scheduler.metrics import Result
from mooring.scheduler.queue import QueuedPod
from mooring.scheduler.snapshot.snapshot import Snapshot
from mooring.volumes.binding import BindingPlan

#: Path beneath the metrics address.
PATH: Final = "/debug/attempts"

#: Per pod; backoff reaches its maximum after five.
MAX_ATTEMPTS: Final = 8
#: Some ten seconds of scheduling in a busy cluster, and as many pending pods.
MAX_PODS: Final = 4096
#: As `_weight` counts: 4,096 pods with three attempts of two reasons each.
MAX_BYTES: Final = 16 * 1024 * 1024
#: Nodes listed per reason.
MAX_LISTED_NODES: Final = 3
#: Reasons per attempt, in the order of plugins. kube-scheduler's plugins have fewer in all.
MAX_REASONS: Final = 24
#: Characters.
MAX_REASON_LENGTH: Final = 250
MAX_MESSAGE_LENGTH: Final = 1024

#: Bytes as `sys.getsizeof` reports them. Names of nodes and plugins are shared with other objects.
_ATTEMPT_BYTES: Final = 320
_REJECTION_BYTES: Final = 160 + 250
_ASSIGNMENT_BYTES: Final = 160 + 2 * 253


class RejectionSummary(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """A plugin's reason, with the number of nodes and some of their names."""

    plugin: str
    reason: str
    nodes: int
    examples: tuple[str, ...] = ()


class VolumeAssignment(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """An existing volume for a claim, or a volume to provision."""

    claim: str
    #: "" if it is to be provisioned.
    volume: str = ""


class Attempt(msgspec.Struct, gc=False, rename="camel", omit_defaults=True):
    """One scheduling attempt. Changed by the log only, when binding ends."""

    #: Seconds since the epoch.
    at: float
    pod_uid: str
    number: int
    considered: int
    #: None while the pod is being bound.
    result: Result | None = None
    #: Why the pod was requeued.
    woken_by: str = ""
    objections: tuple[RejectionSummary, ...] = ()
    #: Number of reasons beyond `objections`.
    omitted: int = 0
    node: str = ""
    score: float = 0.0
    feasible: int = 0
    runner_up: str = ""
    runner_up_score: float = 0.0
    #: The policies that scored the pod's volumes.
    volume_policy: str = ""
    supplies: tuple[VolumeAssignment, ...] = ()
    #: The node where pods are preempted for it.
    nominated: str = ""
    #: The error after a node was chosen.
    message: str = ""
    #: Including the wait for volumes.
    seconds: float = 0.0


class Attempts(msgspec.Struct, frozen=True, rename="camel"):
    """The response of `/debug/attempts`: the last attempts of a pod, the oldest first."""

    pod: str
    attempts: tuple[Attempt, ...]


class AttemptLog:
    def __init__(self, *, pods: int = MAX_PODS, attempts: int = MAX_ATTEMPTS, max_bytes: int = MAX_BYTES) -> None:
        self._max_pods = pods
        self._max_attempts = attempts
        self._max_bytes = max_bytes
        #: By pod key, the least recently attempted first.
        self._waiting: dict[str, list[Attempt]] = {}
        #: Bound or deleted pods, in that order.
        self._finished: dict[str, list[Attempt]] = {}
        self._pods = 0
        #: Approximate.
        self._bytes = 0

    def of(self, pod: str) -> tuple[Attempt, ...]:
        """The attempts of a pod by key, the oldest first."""
        return tuple(self._waiting.get(pod) or self._finished.get(pod) or ())

    def document(self, query: Query) -> bytes:
        """The JSON response to `?pod=NAMESPACE/NAME`. Raises BadRequest."""
        pod = query.get("pod", "")
        namespace, _, name = pod.partition("/")
        if not namespace or not name or "/" in name:
            raise BadRequest("query parameter required: ?pod=NAMESPACE/NAME")
        return msgspec.json.encode(Attempts(pod, self.of(pod)))

    def decided(self, at: float, queued: QueuedPod, decision: Decision, snapshot: Snapshot) -> Attempt:
        """Record a decision."""
        pod, ranking, reason = decision.pod, decision.ranking, queued.requeue_reason
        attempt = Attempt(
            at,
            pod.metadata.uid,
            queued.attempts,
            decision.evaluated_nodes,
            node=decision.node,
            score=ranking.score,
            feasible=ranking.feasible,
            runner_up=ranking.runner_up,
            runner_up_score=ranking.runner_up_score,
            volume_policy=ranking.volume_policy,
        )
        if reason:
            attempt.woken_by = str(reason)
        if decision.refusals or decision.rejected:
            summaries = _summaries(decision, snapshot.names)
            attempt.objections = tuple(summaries[:MAX_REASONS])
            attempt.omitted = len(summaries[MAX_REASONS:])
        self._keep(pod.key, attempt)
        return attempt

    def reserved(self, pod: str, attempt: Attempt, plan: BindingPlan) -> None:
        static = (VolumeAssignment(binding.claim.key, binding.volume.name) for binding in plan.static)
        attempt.supplies = (*static, *(VolumeAssignment(each.claim.key) for each in plan.provision))
        self._grow(pod, attempt, len(attempt.supplies) * _ASSIGNMENT_BYTES)

    def ended(self, pod: str, attempt: Attempt, result: Result, seconds: float, message: str = "") -> None:
        attempt.result = result
        attempt.seconds = seconds
        if message:
            attempt.message = message[:MAX_MESSAGE_LENGTH]
            self._grow(pod, attempt, len(attempt.message))

    def over(self, pod: str) -> None:
        """The pod was bound or deleted: its attempts are dropped before those of pending pods."""
        kept = self._waiting.pop(pod, None)
        if kept is not None:
            self._finished[pod] = kept

    def _keep(self, pod: str, attempt: Attempt) -> None:
        # A finished one is pending again, or it is another pod of the name.
        kept = self._waiting.pop(pod, None) or self._finished.pop(pod, [])
        self._pods += not kept
        self._waiting[pod] = kept
        kept.append(attempt)
        self._bytes += _weight(attempt) if attempt.objections else _ATTEMPT_BYTES
        if kept[self._max_attempts :]:
            self._bytes -= _weight(kept.pop(0))
        if self._bytes > self._max_bytes or self._pods > self._max_pods:
            self._evict()

    def _grow(self, pod: str, attempt: Attempt, more: int) -> None:
        """Count more bytes for an attempt, if it is still kept."""
        if any(each is attempt for each in self._waiting.get(pod) or self._finished.get(pod) or ()):
            self._bytes += more
            self._evict()

    def _evict(self) -> None:
        while self._bytes > self._max_bytes or self._pods > self._max_pods:
            pods = self._finished or self._waiting
            self._bytes -= sum(_weight(attempt) for attempt in pods.pop(next(iter(pods))))
            self._pods -= 1


def _summaries(decision: Decision, names: tuple[str, ...]) -> list[RejectionSummary]:
    """Plain loops: runs for every attempt of every unschedulable pod."""
    found = []
    for plugin, reason in decision.refusals:
        found.append(RejectionSummary(plugin, reason[:MAX_REASON_LENGTH], decision.evaluated_nodes))
    for plugin, rejections in decision.filter_results:
        for nodes, reason, *_ in rejections:
            count, named, left = nodes.bit_count(), [], nodes
            # Bit by bit: a set may have thousands of nodes.
            for _ in range(MAX_LISTED_NODES):
                low = left & -left
                named.append(names[low.bit_length() - 1])
                left ^= low
                if not left:
                    break
            found.append(RejectionSummary(plugin, reason[:MAX_REASON_LENGTH], count, tuple(named)))
    return found


def _weight(attempt: Attempt) -> int:
    """Approximate bytes, rather too many: texts count at their maximum where measuring costs more."""
    parts = len(attempt.objections) * _REJECTION_BYTES + len(attempt.supplies) * _ASSIGNMENT_BYTES
    return _ATTEMPT_BYTES + parts + len(attempt.message)
