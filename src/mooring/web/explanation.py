"""Why a pod waits, for the page: `explain`'s own verdict, with the nodes grouped by what speaks against them.

The objects are those the reader may see. What they may not list counts as not there, and the answer says so. The
decision runs in a thread of its own, one at a time: on a large cluster it takes a while, and in `mooring up` it shares
its process with the cluster.
"""

import asyncio
from collections.abc import Iterable
from typing import Final

import msgspec

from mooring.api.errors import ApiError
from mooring.api.kinds import POD, Kind
from mooring.api.views.meta import ApiObject
from mooring.api.views.pod import Pod
from mooring.client.contract import Unreachable
from mooring.clock import Clock
from mooring.explain.cluster_objects import SEEN, ClusterObjects
from mooring.explain.pod import explain_pod
from mooring.explain.verdicts import ClaimStanding, ClaimVerdict, NodeVerdict, PodVerdict, Reason
from mooring.web.session import Session

#: How many nodes of a group are named; the others are counted.
NODES_NAMED: Final = 60
#: Asked for at the same time, by several tabs or an impatient finger; more are sent away.
MOST_AT_ONCE: Final = 4


class Busy(Exception):
    """Too many explanations are being made already."""


class Group(msgspec.Struct, frozen=True, rename="camel"):
    """Nodes that the same speaks against; figures and `volumes` are those of the first of them."""

    fits: bool
    count: int
    nodes: tuple[str, ...]
    reasons: tuple[Reason, ...]
    volumes: tuple[ClaimVerdict, ...]


class Explanation(msgspec.Struct, frozen=True, rename="camel"):
    pod: str
    verdict: str
    ok: bool
    node: str | None
    #: What would help, the nearest first.
    helps: tuple[str, ...]
    #: What speaks against the pod on every node.
    everywhere: tuple[Reason, ...]
    claims: tuple[ClaimStanding, ...]
    groups: tuple[Group, ...]
    #: What else is known, what the verdict does not rest on, and what in the objects could not be understood.
    notes: tuple[str, ...]


class Explainer:
    """Explains pods of a session, one after the other."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._turn = asyncio.Lock()
        self._asked = 0

    async def explain(self, session: Session, key: str) -> Explanation | None:
        """None when there is no such pod. Raises Busy."""
        if self._asked >= MOST_AT_ONCE:
            raise Busy
        self._asked += 1
        try:
            async with self._turn:
                objects = await self._collect(session)
                pod = objects.get(POD, key)
                return None if pod is None else await asyncio.to_thread(_explained, pod, objects)
        finally:
            self._asked -= 1

    async def _collect(self, session: Session) -> ClusterObjects:
        listed: list[tuple[Kind[ApiObject], Iterable[ApiObject]]] = []
        unseen: dict[Kind[ApiObject], str] = {}
        for kind in SEEN:
            try:
                listed.append((kind, await _items(session, kind)))
            except ApiError as error:
                unseen[kind] = error.message
            except Unreachable as error:
                unseen[kind] = str(error)
        objects = ClusterObjects(now=self._clock.now(), unseen=unseen)
        for kind, items in listed:
            for item in items:
                objects.put(kind, item)
        return objects


async def _items(session: Session, kind: Kind[ApiObject]) -> Iterable[ApiObject]:
    informer = session.informer(kind)
    if informer is not None and informer.synced.is_set():
        return tuple(informer.items())
    return (await session.client.list(kind, namespace=session.focus.namespace_of(kind))).items


def _explained(pod: Pod, objects: ClusterObjects) -> Explanation:
    verdict, problems = explain_pod(pod, objects)
    missing = [
        f"{kind.plural} could not be listed and count as not there: {why}" for kind, why in objects.unseen.items()
    ]
    return Explanation(
        verdict.pod,
        verdict.verdict,
        verdict.ok,
        verdict.node_name,
        verdict.helps,
        verdict.prefilter,
        verdict.claims,
        tuple(_groups(verdict)),
        (*verdict.notes, *missing, *problems),
    )


def _groups(verdict: PodVerdict) -> list[Group]:
    """Those that fit first, then by size. Figures differ from node to node; they make no groups of their own."""
    found: dict[tuple[bool, tuple[tuple[str, str], ...]], list[tuple[str, NodeVerdict]]] = {}
    for name, node in verdict.nodes.items():
        said = tuple((one.plugin, one.reason) for one in node.reasons)
        found.setdefault((node.fits, said), []).append((name, node))
    groups = [
        Group(
            fits, len(nodes), tuple(name for name, _ in nodes[:NODES_NAMED]), nodes[0][1].reasons, nodes[0][1].volumes
        )
        for (fits, _), nodes in found.items()
    ]
    return sorted(groups, key=lambda group: (not group.fits, -group.count, group.nodes))
