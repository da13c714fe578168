"""Gangs for one side of one measurement: how many are complete, and how many are partial when the time is over."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec

from bench.kube.cluster import NAMESPACE, create_all
from bench.kube.report import KUBE, MOORING, Outcome, duration
from bench.kube.runs import LABEL, Run
from mooring.api.kinds import CLAIM, POD, POD_GROUP
from mooring.api.views.pods import Pod
from support.builders import claim_body
from support.builders.groups import member_body, pod_group_body

#: The name of the gang, on its members.
GANG = "gang"
#: Ours with the volumes of a gang held until all exist; the coordinator commits them.
HELD = "mooring, held"
NAMES = {KUBE: "kube-scheduler", MOORING: "Mooring", HELD: "Mooring, volumes held"}


class GangOutcome(NamedTuple):
    """`outcome` counts members; its time is the timeout unless all of them are bound."""

    outcome: Outcome
    size: int
    gangs: int
    #: Gangs with all members bound, and with some.
    whole: int
    partial: int

    @property
    def whole_each_minute(self) -> float:
        return 60 * self.whole / self.outcome.seconds


class FirstAttempts(NamedTuple):
    """What becomes of gangs of three whose nodes have capacity for one member each."""

    side: str
    gangs: int
    #: Without a failed attempt to provision, after some, and with some members bound when the time is over.
    at_once: int
    later: int
    partial: int


class GangRun(Run):
    async def place_gangs(
        self, what: str, side: str, *, nodes: int, scheduler: str, gangs: int, size: int, of_class: str
    ) -> GangOutcome:
        """Members have one claim each. Claims and PodGroups are created before the measurement begins."""
        await self._warm_up(scheduler)
        names = self.names(gangs * size)
        claims = [claim_body(name=name, storage_class=of_class, size="1Gi") for name in names]
        await create_all(self._client, CLAIM, claims, NAMESPACE)
        groups = [f"{self._name}-gang-{number}" for number in range(gangs)]
        bodies = [pod_group_body(name=name, min_count=size) for name in groups]
        await create_all(self._client, POD_GROUP, bodies, NAMESPACE)
        members = [
            member_body(
                group=groups[number // size],
                name=name,
                scheduler=scheduler,
                claims=[name],
                labels={LABEL: self._name, GANG: groups[number // size]},
            )
            for number, name in enumerate(names)
        ]
        bound: Counter[str] = Counter()

        def is_bound(pod: Pod) -> bool:
            """Called for each pod until it is true."""
            bound[pod.metadata.labels[GANG]] += bool(pod.spec.node_name)
            return bool(pod.spec.node_name)

        try:
            outcome = await self._measure(what, side, nodes, POD, members, is_bound)
        finally:
            await self._remove(names)
        return self._counted(outcome, size, gangs, bound)

    def _counted(self, outcome: Outcome, size: int, gangs: int, bound: Counter[str]) -> GangOutcome:
        if outcome.done < outcome.asked:
            outcome = msgspec.structs.replace(outcome, seconds=self._timeout)
        return GangOutcome(outcome, size, gangs, *whole_and_partial(bound.values(), size))


def whole_and_partial(bound: Iterable[int], size: int) -> tuple[int, int]:
    """How many gangs have all members bound, and how many some, by the number of bound members of each gang."""
    counts = list(bound)
    return sum(count >= size for count in counts), sum(0 < count < size for count in counts)


def gang_line(one: GangOutcome) -> str:
    """As a progress line."""
    outcome = one.outcome
    return (
        f"{outcome.what}, gangs of {one.size}, {NAMES[outcome.side]}: {one.whole} of {one.gangs} whole, {one.partial} "
        f"partial, {outcome.done} of {outcome.asked} members in {outcome.seconds:.1f} s"
    )


def gang_table(outcomes: Sequence[GangOutcome]) -> str:
    """Markdown, as docs/performance.md shows it."""
    rows = [
        "| volumes | gangs | scheduler | whole | partial | gangs per minute | members per second | its CPU per member "
        "| total CPU per member | its peak memory |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for one in outcomes:
        outcome = one.outcome
        cells = [
            outcome.what,
            f"{one.gangs} of {one.size:,}",
            NAMES[outcome.side],
            str(one.whole),
            str(one.partial),
            f"{one.whole_each_minute:.3g}",
            f"{outcome.rate:.3g}",
            _each(outcome, outcome.cpu_each),
            _each(outcome, outcome.cpu_of_all_each),
            f"{outcome.peak_bytes / 1e6:.0f} MB",
        ]
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows)


def _each(outcome: Outcome, seconds: float) -> str:
    return duration(seconds) if outcome.done else f"{duration(seconds)} for none"


def first_attempt_table(found: Sequence[FirstAttempts]) -> str:
    rows = [
        "| gangs of 3, capacity for one member on each node | whole at the first attempt | whole later | partial |",
        "|---|---|---|---|",
    ]
    rows += [
        f"| {NAMES[one.side]} | {one.at_once} of {one.gangs} ({100 * one.at_once / one.gangs:.0f} %) | {one.later} "
        f"| {one.partial} |"
        for one in found
    ]
    return "\n".join(rows)
