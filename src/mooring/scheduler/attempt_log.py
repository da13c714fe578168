"""What the scheduler did for each pod lately: its last attempts, kept in memory within bounds of pods and bytes. Pure.

`component` writes it, `/debug/attempts` shows it and `mooring story` tells it beside Events, which merge, expire and
say nothing of scores, of nodes by name and of why a pod was tried again. An attempt is digested when it is made, a few
names per reason whatever the number of nodes, so that nothing of a snapshot is kept alive. Nothing decides by it.

Pods that have their node, or are gone, make room first: their stories are over.
"""

from typing import Final

import msgspec

from mooring.api.debug_documents import Query
from mooring.api.errors import BadRequest
from mooring.scheduler.changes import told
from mooring.scheduler.contract import Decision
from mooring.scheduler.metrics import Result
from mooring.scheduler.queue import Entry
from mooring.scheduler.snapshot import Snapshot
from mooring.volumes.plan import BindingPlan

#: Where processes show the log, beneath the address of their metrics.
PATH: Final = "/debug/attempts"

#: Attempts kept of one pod; backoff reaches its longest after five.
ATTEMPTS: Final = 8
#: Pods kept: some ten seconds of placing at the pace of a busy cluster, and as many that wait.
PODS: Final = 4096
#: Bytes kept, by `_weight`'s reckoning: what 4,096 pods with three attempts of two reasons each come to.
BYTES: Final = 16 * 1024 * 1024
#: Nodes named per reason; the others are counted.
NAMED: Final = range(3)
#: Reasons kept of an attempt, in the order plugins are asked. kube-scheduler's plugins have fewer in all.
REASONS: Final = 24
#: Characters kept of a reason, and of a message.
LONGEST_REASON: Final = 250
LONGEST_MESSAGE: Final = 1024

#: Bytes of an attempt without what follows, of a reason with its names, and of a claim with its volume, as
#: `sys.getsizeof` adds them up. Names of nodes and plugins are shared with others who keep them.
_ATTEMPT_BYTES: Final = 320
_OBJECTION_BYTES: Final = 160 + 250
_SUPPLY_BYTES: Final = 160 + 2 * 253


class Objection(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """What a plugin held against so many nodes, some of which are named."""

    plugin: str
    reason: str
    nodes: int
    examples: tuple[str, ...] = ()


class Supply(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """How a claim was to get its volume: this one, or one that is made."""

    claim: str
    #: "" where one is made.
    volume: str = ""


class Attempt(msgspec.Struct, gc=False, rename="camel", omit_defaults=True):
    """One attempt for a pod. The log alone changes it, when binding comes to its end."""

    #: Seconds since the epoch.
    at: float
    pod_uid: str
    number: int
    considered: int
    #: None while the pod is being bound.
    result: Result | None = None
    #: Why the pod was tried just then.
    woken_by: str = ""
    objections: tuple[Objection, ...] = ()
    #: How many reasons more there were.
    omitted: int = 0
    node: str = ""
    score: float = 0.0
    feasible: int = 0
    runner_up: str = ""
    runner_up_score: float = 0.0
    supplies: tuple[Supply, ...] = ()
    #: Where others are to make way for it.
    nominated: str = ""
    #: What went wrong after a node was chosen.
    message: str = ""
    #: From its beginning to its end; most of it is spent waiting for volumes to be bound.
    seconds: float = 0.0


class Attempts(msgspec.Struct, frozen=True, rename="camel"):
    """What `/debug/attempts` answers: the last ones of a pod, the oldest first."""

    pod: str
    attempts: tuple[Attempt, ...]


class AttemptLog:
    """The last attempts of the pods that were tried last."""

    def __init__(self, *, pods: int = PODS, attempts: int = ATTEMPTS, most_bytes: int = BYTES) -> None:
        self._most_pods = pods
        self._most_attempts = attempts
        self._most_bytes = most_bytes
        #: By key, the pod tried longest ago first.
        self._waiting: dict[str, list[Attempt]] = {}
        #: Those whose story is over, in the order it ended.
        self._over: dict[str, list[Attempt]] = {}
        self._pods = 0
        self._bytes = 0

    @property
    def pods(self) -> int:
        """Of how many something is kept."""
        return self._pods

    @property
    def weight(self) -> int:
        """Bytes that are kept, roughly."""
        return self._bytes

    def of(self, pod: str) -> tuple[Attempt, ...]:
        """What is kept of the pod with this key, the oldest first."""
        return tuple(self._waiting.get(pod) or self._over.get(pod) or ())

    def document(self, query: Query) -> bytes:
        """The answer to `?pod=NAMESPACE/NAME`, as JSON. Raises BadRequest."""
        pod = query.get("pod", "")
        namespace, _, name = pod.partition("/")
        if not namespace or not name or "/" in name:
            raise BadRequest("say whose attempts: ?pod=NAMESPACE/NAME")
        return msgspec.json.encode(Attempts(pod, self.of(pod)))

    def decided(self, at: float, entry: Entry, decision: Decision, snapshot: Snapshot) -> Attempt:
        """An attempt in a snapshot came to a decision: the pod is parked, or about to be bound."""
        pod, ranking, woken = decision.pod, decision.ranking, entry.woken
        attempt = Attempt(
            at,
            pod.metadata.uid,
            entry.attempts,
            decision.considered,
            node=decision.node,
            score=ranking.score,
            feasible=ranking.feasible,
            runner_up=ranking.runner_up,
            runner_up_score=ranking.runner_up_score,
        )
        if woken:
            attempt.woken_by = woken if isinstance(woken, str) else told(woken)
        if decision.refusals or decision.rejected:
            objections = _objections(decision, snapshot.names)
            attempt.objections = tuple(objections[:REASONS])
            attempt.omitted = len(objections[REASONS:])
        self._keep(pod.key, attempt)
        return attempt

    def reserved(self, pod: str, attempt: Attempt, plan: BindingPlan) -> None:
        """Volumes were promised to the pod's claims."""
        static = (Supply(binding.claim.key, binding.volume.name) for binding in plan.static)
        attempt.supplies = (*static, *(Supply(wish.claim.key) for wish in plan.provision))
        self._grow(pod, attempt, len(attempt.supplies) * _SUPPLY_BYTES)

    def ended(self, pod: str, attempt: Attempt, result: Result, seconds: float, why: str = "") -> None:
        """The pod was parked, could not be bound, or has its node."""
        attempt.result = result
        attempt.seconds = seconds
        if why:
            attempt.message = why[:LONGEST_MESSAGE]
            self._grow(pod, attempt, len(attempt.message))

    def over(self, pod: str) -> None:
        """The pod has its node, is gone, or is not ours any more: it makes room before those that wait."""
        kept = self._waiting.pop(pod, None)
        if kept is not None:
            self._over[pod] = kept

    def _keep(self, pod: str, attempt: Attempt) -> None:
        if pod in self._waiting:
            kept = self._waiting.pop(pod)
        elif pod in self._over:
            # A pod that comes back, perhaps another one of the name, waits again.
            kept = self._over.pop(pod)
        else:
            kept = []
            self._pods += 1
        self._waiting[pod] = kept
        kept.append(attempt)
        self._bytes += _weight(attempt) if attempt.objections else _ATTEMPT_BYTES
        if kept[self._most_attempts :]:
            self._bytes -= _weight(kept.pop(0))
        if self._bytes > self._most_bytes or self._pods > self._most_pods:
            self._make_room()

    def _grow(self, pod: str, attempt: Attempt, more: int) -> None:
        """An attempt has more to say; it may not be kept any more."""
        if any(each is attempt for each in self._waiting.get(pod) or self._over.get(pod) or ()):
            self._bytes += more
            self._make_room()

    def _make_room(self) -> None:
        while self._bytes > self._most_bytes or self._pods > self._most_pods:
            shelf = self._over or self._waiting
            self._bytes -= sum(_weight(attempt) for attempt in shelf.pop(next(iter(shelf))))
            self._pods -= 1


def _objections(decision: Decision, names: tuple[str, ...]) -> list[Objection]:
    """Plain loops: this is done for every pod that waits, each time it is tried."""
    found = []
    for plugin, reason in decision.refusals:
        # A refusal holds on every node.
        found.append(Objection(plugin, reason[:LONGEST_REASON], decision.considered))
    for plugin, rejections in decision.said:
        for nodes, reason, *_ in rejections:
            count, named, left = nodes.bit_count(), [], nodes
            # Bit by bit: a set may have thousands.
            for _ in NAMED:
                low = left & -left
                named.append(names[low.bit_length() - 1])
                left ^= low
                if not left:
                    break
            found.append(Objection(plugin, reason[:LONGEST_REASON], count, tuple(named)))
    return found


def _weight(attempt: Attempt) -> int:
    """Bytes, roughly and rather too many: texts count at their longest where measuring them would cost more."""
    parts = len(attempt.objections) * _OBJECTION_BYTES + len(attempt.supplies) * _SUPPLY_BYTES
    return _ATTEMPT_BYTES + parts + len(attempt.message)
