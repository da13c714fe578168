"""What kube-scheduler and an extender say to each other: version 1 of the protocol, as JSON bodies.

Names are Go's, which upstream did not dress up for JSON: `NodeNames`, `FailedAndUnresolvableNodes`. Nodes come either
as names or, where the extender is declared to know none (`nodeCacheCapable: false`), as whole objects, which go back
byte for byte: kube-scheduler goes on with what it is given back. Of objects only what is judged here is decoded.
"""

from collections.abc import Mapping, Sequence
from typing import Final, TypeVar

import msgspec

from mooring.api.views.meta import ApiObject
from mooring.api.views.pod import Pod

T = TypeVar("T")

#: What an extender can be asked to do, by the last part of the path; kube-scheduler's configuration names them.
VERBS: Final = ("filter", "prioritize", "preempt", "bind")

#: The best score there is; kube-scheduler multiplies it by ten, and by the extender's weight.
HIGHEST_SCORE: Final = 10


class Message(msgspec.Struct, frozen=True, gc=False, rename="pascal"):
    """Options all of them share."""


class MalformedCall(ValueError):
    """A body that is none of the protocol's; the text says what is wrong with it."""


class NodeList(msgspec.Struct, frozen=True, gc=False):
    """Kubernetes' own, so its fields are spelled as usual."""

    items: tuple[msgspec.Raw, ...] | None = None


class ExtenderArgs(Message, frozen=True, gc=False):
    """Of filter and prioritize: the pod and the nodes in question, in one of two forms."""

    pod: Pod
    nodes: NodeList | None = None
    node_names: tuple[str, ...] | None = None


class ExtenderFilterResult(Message, frozen=True, gc=False):
    nodes: NodeList | None = None
    node_names: Sequence[str] | None = None
    #: By node, why not; evicting pods might help.
    failed_nodes: Mapping[str, str] = {}
    #: The same, where it would not.
    failed_and_unresolvable_nodes: Mapping[str, str] = {}
    #: Set when there is no verdict: kube-scheduler tries again after a while, or goes on without us if it may.
    error: str = ""


class HostPriority(Message, frozen=True, gc=False):
    host: str
    score: int


class ExtenderBindingArgs(Message, frozen=True, gc=False):
    pod_name: str
    pod_namespace: str
    node: str
    pod_uid: str = msgspec.field(name="PodUID")


class ExtenderBindingResult(Message, frozen=True, gc=False):
    error: str = ""


class Victims(Message, frozen=True, gc=False):
    """With whole pods, of which only the uid counts here."""

    pods: tuple[ApiObject, ...] | None = None
    num_pdb_violations: int = msgspec.field(name="NumPDBViolations", default=0)


class MetaPod(Message, frozen=True, gc=False):
    uid: str = msgspec.field(name="UID")


class MetaVictims(Message, frozen=True, gc=False):
    pods: tuple[MetaPod, ...] | None = None
    num_pdb_violations: int = msgspec.field(name="NumPDBViolations", default=0)


class ExtenderPreemptionArgs(Message, frozen=True, gc=False):
    """The pod, and by node who would have to go for it, in one of two forms."""

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


class ExtenderPreemptionResult(Message, frozen=True, gc=False):
    node_name_to_meta_victims: Mapping[str, MetaVictims]


class Failure(Message, frozen=True, gc=False):
    """What is said beside a code where a verb's result has no place for it."""

    error: str


class Nodes:
    """The nodes of a call by name, and how to say some of them in the form they came in."""

    def __init__(self, args: ExtenderArgs) -> None:
        """Raises MalformedCall."""
        self._whole: dict[str, msgspec.Raw] | None = None
        if args.node_names is not None:
            self.names: Sequence[str] = args.node_names
        elif args.nodes is not None:
            self._whole = {_name(raw): raw for raw in args.nodes.items or ()}
            self.names = tuple(self._whole)
        else:
            raise MalformedCall("neither NodeNames nor Nodes are given")

    def result(
        self, passing: Sequence[str], failed: Mapping[str, str], unresolvable: Mapping[str, str]
    ) -> ExtenderFilterResult:
        if self._whole is None:
            return ExtenderFilterResult(None, passing, failed, unresolvable)
        listed = NodeList(tuple(self._whole[name] for name in passing))
        return ExtenderFilterResult(listed, None, failed, unresolvable)


def decode(body: bytes, message: type[T]) -> T:
    """Raises MalformedCall."""
    try:
        return msgspec.json.decode(body, type=message)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        kind = getattr(message, "__name__", "message")
        raise MalformedCall(f"not a {kind} of the scheduler extender protocol v1: {error}") from error


def encode(message: Message | Sequence[Message]) -> bytes:
    return msgspec.json.encode(message)


def _name(raw: msgspec.Raw) -> str:
    try:
        node = msgspec.json.decode(raw, type=ApiObject)
    except msgspec.DecodeError as error:
        raise MalformedCall(f"Nodes: {error}") from error
    if not node.name:
        raise MalformedCall("Nodes: a node without a name")
    return node.name
