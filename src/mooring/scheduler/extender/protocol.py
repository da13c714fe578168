"""Scheduler extender protocol v1: message types as JSON bodies, and the extender's settings.

Field names are Go's (`NodeNames`, `FailedAndUnresolvableNodes`). Nodes are sent as names or, with `nodeCacheCapable:
false`, as whole objects, which are returned byte for byte: kube-scheduler continues with what it gets back.
"""

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

import msgspec

from mooring.api import well_known
from mooring.api.views.meta import ApiObject
from mooring.api.views.pods import Pod
from mooring.scheduler.binding.binder import BIND_TIMEOUT
from mooring.volumes.binding import HOLD_NAMESPACE
from mooring.volumes.scoring import CapacityPolicy

#: Maximum seconds between two calls while pods are bound: kube-scheduler retries pending pods every five minutes.
CALLED_WITHIN: Final = 300.0


class Mode(enum.Enum):
    #: kube-scheduler binds volumes and pods; the extender filters and scores nodes.
    FILTER = "filter"
    #: kube-scheduler runs without VolumeBinding; the extender also binds the volumes and the pod.
    BIND = "bind"


@dataclass(frozen=True)
class ExtenderSettings:
    mode: Mode = Mode.FILTER
    #: schedulerNames of the calling kube-schedulers.
    scheduler_names: frozenset[str] = frozenset({well_known.DEFAULT_SCHEDULER})
    #: Seconds a pod may wait for its volumes within one call of bind.
    bind_timeout: float = BIND_TIMEOUT
    called_within: float = CALLED_WITHIN
    #: Not ready while no calls come. Not behind a Service, where it would then never be called.
    ready_only_when_called: bool = False
    hold_namespace: str = HOLD_NAMESPACE
    policy: CapacityPolicy = CapacityPolicy.SPREAD


T = TypeVar("T")

#: The last path element of a call; kube-scheduler's configuration names them.
VERBS: Final = ("filter", "prioritize", "preempt", "bind")

#: kube-scheduler multiplies scores by ten, and by the extender's weight.
MAX_SCORE: Final = 10


class ExtenderMessage(msgspec.Struct, frozen=True, gc=False, rename="pascal"):
    """Base of the messages."""


class MalformedCall(ValueError):
    """The request body is not a message of the protocol."""


class NodeList(msgspec.Struct, frozen=True, gc=False):
    """A Kubernetes type, with the usual field names."""

    items: tuple[msgspec.Raw, ...] | None = None


class ExtenderArgs(ExtenderMessage, frozen=True, gc=False):
    """Of filter and prioritize. The nodes come in one of two forms."""

    pod: Pod
    nodes: NodeList | None = None
    node_names: tuple[str, ...] | None = None


class ExtenderFilterResult(ExtenderMessage, frozen=True, gc=False):
    nodes: NodeList | None = None
    node_names: Sequence[str] | None = None
    #: Reasons by node; preemption might help.
    failed_nodes: Mapping[str, str] = {}
    #: Reasons by node; preemption would not help.
    failed_and_unresolvable_nodes: Mapping[str, str] = {}
    #: Set when there is no result: kube-scheduler retries, or ignores the extender if it is ignorable.
    error: str = ""


class HostPriority(ExtenderMessage, frozen=True, gc=False):
    host: str
    score: int


class ExtenderBindingArgs(ExtenderMessage, frozen=True, gc=False):
    pod_name: str
    pod_namespace: str
    node: str
    pod_uid: str = msgspec.field(name="PodUID")


class ExtenderBindingResult(ExtenderMessage, frozen=True, gc=False):
    error: str = ""


class Victims(ExtenderMessage, frozen=True, gc=False):
    """Of the pods only the uid is read."""

    pods: tuple[ApiObject, ...] | None = None
    num_pdb_violations: int = msgspec.field(name="NumPDBViolations", default=0)


class MetaPod(ExtenderMessage, frozen=True, gc=False):
    uid: str = msgspec.field(name="UID")


class MetaVictims(ExtenderMessage, frozen=True, gc=False):
    pods: tuple[MetaPod, ...] | None = None
    num_pdb_violations: int = msgspec.field(name="NumPDBViolations", default=0)


class ExtenderPreemptionArgs(ExtenderMessage, frozen=True, gc=False):
    """The victims by node come in one of two forms."""

    pod: Pod
    node_name_to_victims: dict[str, Victims] | None = None
    node_name_to_meta_victims: dict[str, MetaVictims] | None = None

    def by_node(self) -> dict[str, MetaVictims]:
        if self.node_name_to_meta_victims is not None:
            return self.node_name_to_meta_victims
        return {
            node: MetaVictims(tuple(MetaPod(pod.uid) for pod in victims.pods or ()), victims.num_pdb_violations)
            for node, victims in (self.node_name_to_victims or {}).items()
        }


class ExtenderPreemptionResult(ExtenderMessage, frozen=True, gc=False):
    node_name_to_meta_victims: Mapping[str, MetaVictims]


class Failure(ExtenderMessage, frozen=True, gc=False):
    """Body of an error response of a verb whose result has no error field."""

    error: str


class Nodes:
    """The nodes of a call by name, and the result in the form they came in."""

    def __init__(self, args: ExtenderArgs) -> None:
        """Raises MalformedCall."""
        self._whole: dict[str, msgspec.Raw] | None = None
        if args.node_names is not None:
            self.names: Sequence[str] = args.node_names
        elif args.nodes is not None:
            self._whole = {_name(raw): raw for raw in args.nodes.items or ()}
            self.names = tuple(self._whole)
        else:
            raise MalformedCall("NodeNames or Nodes is required")

    def result(
        self, passing: Sequence[str], failed: Mapping[str, str], unresolvable: Mapping[str, str]
    ) -> ExtenderFilterResult:
        if self._whole is None:
            return ExtenderFilterResult(None, passing, failed, unresolvable)
        listed = NodeList(tuple(self._whole[name] for name in passing))
        return ExtenderFilterResult(listed, None, failed, unresolvable)


def decode_call(body: bytes, message: type[T]) -> T:
    """Raises MalformedCall."""
    try:
        return msgspec.json.decode(body, type=message)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        kind = getattr(message, "__name__", "message")
        raise MalformedCall(f"not a {kind} of the scheduler extender protocol v1: {error}") from error


def encode_reply(message: ExtenderMessage | Sequence[ExtenderMessage]) -> bytes:
    return msgspec.json.encode(message)


def _name(raw: msgspec.Raw) -> str:
    try:
        node = msgspec.json.decode(raw, type=ApiObject)
    except msgspec.DecodeError as error:
        raise MalformedCall(f"Nodes: {error}") from error
    if not node.name:
        raise MalformedCall("Nodes: a node without a name")
    return node.name
