"""What was measured, and what follows from it: rates, ratios, costs, a table. Plain values and arithmetic."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

KUBE, MOORING = "kube", "mooring"

LOCAL = "late-bound local volumes"
LOCAL_STOCK = "late-bound local volumes, stock PV controller"
MADE = "volumes made on demand, capacity looked at"
PLAIN = "pods without volumes"
BOUND = "bound CSI volumes with attach limits"
PAIRS = "immediate pairs"

#: How many times as fast as Kubernetes' own component ours has to be, and on how many nodes that counts.
BARS: Mapping[str, tuple[int, float]] = {
    LOCAL: (1000, 150.0),
    MADE: (1000, 30.0),
    PLAIN: (5000, 3.0),
    BOUND: (5000, 3.0),
    PAIRS: (0, 2.0),
}


class Outcome(msgspec.Struct, frozen=True):
    """One side of one measurement."""

    what: str
    side: str
    nodes: int
    asked: int
    #: How much of it was done in time.
    done: int
    #: From the first request to the last completion, or to the timeout.
    seconds: float
    #: Of the process that is measured.
    cpu_seconds: float
    peak_bytes: int
    #: Processor time of all processes during the measurement, by name.
    cpu_by_process: dict[str, float]

    @property
    def rate(self) -> float:
        return self.done / self.seconds

    @property
    def cpu_each(self) -> float:
        """Processor seconds of the measured process for each thing done."""
        return self.cpu_seconds / max(self.done, 1)

    @property
    def cpu_of_all_each(self) -> float:
        """The same for all processes together, including this one: the limiting factor where all cores are busy."""
        return sum(self.cpu_by_process.values()) / max(self.done, 1)


class Pair(NamedTuple):
    kube: Outcome | None
    mooring: Outcome

    @property
    def ratio(self) -> float | None:
        """How many times as fast. A side that completed nothing in time counts as if it had completed one."""
        if self.kube is None:
            return None
        return self.mooring.rate * self.kube.seconds / max(self.kube.done, 1)

    @property
    def bar(self) -> float | None:
        nodes, bar = BARS.get(self.mooring.what, (-1, 0.0))
        return bar if nodes == self.mooring.nodes else None


def pairs(outcomes: Iterable[Outcome]) -> list[Pair]:
    """The two sides of each measurement, the latest of each; what ours has no figure of is left out."""
    latest = {(one.what, one.nodes, one.side): one for one in outcomes}
    return [
        Pair(latest.get((what, nodes, KUBE)), ours) for (what, nodes, side), ours in latest.items() if side == MOORING
    ]


def table(outcomes: Sequence[Outcome]) -> str:
    """Markdown, as docs/performance.md shows it."""
    lines = [
        "| | nodes | Kubernetes | Mooring | ratio | bar | its CPU each | total CPU each | its peak memory |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for pair in pairs(outcomes):
        kube, ours = pair.kube, pair.mooring
        cells = [
            ours.what,
            f"{ours.nodes:,}" if ours.nodes else "",
            _rate(kube),
            _rate(ours),
            "" if pair.ratio is None else f"{pair.ratio:.3g}",
            "" if pair.bar is None else f"{pair.bar:g}",
            " / ".join("?" if one is None else duration(one.cpu_each) for one in pair),
            " / ".join("?" if one is None else duration(one.cpu_of_all_each) for one in pair),
            f"{_megabytes(kube)} / {_megabytes(ours)}",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def line(one: Outcome) -> str:
    """One outcome as a progress line."""
    busy = ", ".join(
        f"{name} {cpu / one.seconds:.2f}"
        for name, cpu in sorted(one.cpu_by_process.items(), key=lambda item: -item[1])
        if cpu >= 0.02 * one.seconds
    )
    return (
        f"{one.what}, {one.nodes} nodes, {one.side}: {one.done} of {one.asked} in {one.seconds:.1f} s, {_rate(one)}, "
        f"{duration(one.cpu_each)} of CPU each, {_megabytes(one)}; cores: {busy}"
    )


def _rate(one: Outcome | None) -> str:
    if one is None:
        return "not measured"
    if not one.done:
        return f"< {1 / one.seconds:.2g}/s"
    return f"{one.rate:.2g}/s" if one.rate < 10 else f"{one.rate:.0f}/s"


def duration(seconds: float) -> str:
    return f"{seconds:.2g} s" if seconds >= 1 else f"{seconds * 1e3:.3g} ms"


def _megabytes(one: Outcome | None) -> str:
    return "?" if one is None else f"{one.peak_bytes / 1e6:.0f} MB"
