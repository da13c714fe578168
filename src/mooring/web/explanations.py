"""Explanations of the dashboard: why a pod or a group is pending, and the recovery plan for lost nodes.

Each is what the `mooring` command prints, made from the objects that the reader may list; kinds that the reader may not
list count as absent, and the notes say so. A recovery plan needs all kinds, as `mooring orphans --plan` does. All of
them are made in a thread, one at a time, because a decision on a large cluster is slow and `mooring up` shares the
process.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Final, TypeVar

import msgspec

from mooring.api.errors import ApiError
from mooring.api.kinds import POD, RECENT, Kind
from mooring.api.views.meta import ApiObject
from mooring.api.views.pods import Pod
from mooring.client.contract import Unreachable
from mooring.clock import Clock
from mooring.explain.cluster_objects import EXPLAINED_KINDS, ClusterObjects
from mooring.explain.cluster_view import ClusterView
from mooring.explain.group import explain_group
from mooring.explain.pod import explain_pod
from mooring.explain.recovery import RecoveryPlan, recovery_plan
from mooring.explain.results import ClaimReport, ClaimVerdict, GroupReport, NodeVerdict, PodVerdict, Reason
from mooring.web.session import Session

T = TypeVar("T")


#: How many nodes of a group are named; the others are counted.
MAX_LISTED_NODES: Final = 60
#: Asked for at the same time, by several tabs or an impatient finger; more are sent away.
MAX_CONCURRENT_EXPLANATIONS: Final = 4


class Busy(Exception):
    """Too many explanations are being made already."""


class Unlisted(Exception):
    """A recovery cannot be planned without some kinds; the text says which."""


class NodeGroup(msgspec.Struct, frozen=True, rename="camel"):
    """Nodes that the same speaks against; figures and `volumes` are those of the first of them."""

    fits: bool
    count: int
    nodes: tuple[str, ...]
    reasons: tuple[Reason, ...]
    volumes: tuple[ClaimVerdict, ...]


class GroupedExplanation(msgspec.Struct, frozen=True, rename="camel"):
    pod: str
    verdict: str
    ok: bool
    node: str | None
    #: What would help, the nearest first.
    remedy_texts: tuple[str, ...] = msgspec.field(name="helps")
    #: What speaks against the pod on every node.
    everywhere: tuple[Reason, ...]
    claims: tuple[ClaimReport, ...]
    groups: tuple[NodeGroup, ...]
    #: What else is known, what the verdict does not rest on, and what in the objects could not be understood.
    notes: tuple[str, ...]


class Explainer:
    """Explains objects of a session, one after the other."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._turn = asyncio.Lock()
        self._asked = 0

    async def pod(self, session: Session, key: str) -> GroupedExplanation | None:
        """None when there is no such pod. Raises Busy."""

        def explained(objects: ClusterObjects) -> GroupedExplanation | None:
            pod = objects.get(POD, key)
            return None if pod is None else _explained(pod, objects)

        return await self._made(session, explained)

    async def group(self, session: Session, key: str) -> GroupReport | None:
        """The report of `mooring explain podgroup/NAME`; None when neither group nor pod is there. Raises Busy."""

        def explained(objects: ClusterObjects) -> GroupReport | None:
            report = explain_group(ClusterView(objects), key)
            if report is None:
                return None
            return msgspec.structs.replace(report, notes=(*report.notes, *_missing(objects)))

        return await self._made(session, explained)

    async def recovery(self, session: Session) -> RecoveryPlan:
        """The plan of `mooring orphans --plan`. Raises Busy and Unlisted."""
        if session.focus.namespace:
            raise Unlisted("A recovery cannot be planned from one namespace: start the dashboard without -n.")

        def planned(objects: ClusterObjects) -> RecoveryPlan:
            for kind, why in objects.unlisted.items():
                if kind not in RECENT:
                    raise Unlisted(f"A recovery cannot be planned without all {kind.plural}: {why}.")
            return recovery_plan(objects)

        return await self._made(session, planned)

    async def _made(self, session: Session, make: Callable[[ClusterObjects], T]) -> T:
        if self._asked >= MAX_CONCURRENT_EXPLANATIONS:
            raise Busy
        self._asked += 1
        try:
            async with self._turn:
                return await asyncio.to_thread(make, await self._collect(session))
        finally:
            self._asked -= 1

    async def _collect(self, session: Session) -> ClusterObjects:
        listed: list[tuple[Kind[ApiObject], Iterable[ApiObject]]] = []
        unlisted: dict[Kind[ApiObject], str] = {}
        for kind in EXPLAINED_KINDS:
            try:
                listed.append((kind, await _items(session, kind)))
            except ApiError as error:
                unlisted[kind] = error.message
            except Unreachable as error:
                unlisted[kind] = str(error)
        objects = ClusterObjects(now=self._clock.now(), unlisted=unlisted)
        for kind, items in listed:
            for item in items:
                objects.put(kind, item)
        return objects


async def _items(session: Session, kind: Kind[ApiObject]) -> Iterable[ApiObject]:
    informer = session.informer(kind)
    if informer is not None and informer.synced.is_set() and not informer.not_served:
        return tuple(informer.items())
    return (await session.client.list(kind, namespace=session.focus.namespace_of(kind))).items


def _explained(pod: Pod, objects: ClusterObjects) -> GroupedExplanation:
    verdict, problems = explain_pod(pod, objects)
    return GroupedExplanation(
        verdict.pod,
        verdict.verdict,
        verdict.ok,
        verdict.node_name,
        verdict.remedy_texts,
        verdict.prefilter,
        verdict.claims,
        tuple(_groups(verdict)),
        (*verdict.notes, *_missing(objects), *problems),
    )


def _missing(objects: ClusterObjects) -> Sequence[str]:
    return [
        f"{kind.plural} could not be listed and count as not there: {why}" for kind, why in objects.unlisted.items()
    ]


def _groups(verdict: PodVerdict) -> list[NodeGroup]:
    """Those that fit first, then by size. Figures differ from node to node; they make no groups of their own."""
    found: dict[tuple[bool, tuple[tuple[str, str], ...]], list[tuple[str, NodeVerdict]]] = {}
    for name, node in verdict.nodes.items():
        said = tuple((one.plugin, one.reason) for one in node.reasons)
        found.setdefault((node.fits, said), []).append((name, node))
    groups = [
        NodeGroup(
            fits,
            len(nodes),
            tuple(name for name, _ in nodes[:MAX_LISTED_NODES]),
            nodes[0][1].reasons,
            nodes[0][1].volumes,
        )
        for (fits, _), nodes in found.items()
    ]
    return sorted(groups, key=lambda group: (not group.fits, -group.count, group.nodes))
