"""The figure of docs/performance.md: pods per second against cluster size, a panel for each sort of pod."""

from collections.abc import Sequence
from pathlib import Path

from bench.kube.report import KUBE, LOCAL, MADE, MOORING, PLAIN, Outcome

PANELS = (PLAIN, MADE, LOCAL)
NAMES = {KUBE: "kube-scheduler", MOORING: "Mooring"}


def curves(outcomes: Sequence[Outcome], what: str) -> dict[str, list[tuple[int, float]]]:
    """Of each side that placed anything, its rate over nodes."""
    points = {
        side: sorted((one.nodes, one.rate) for one in outcomes if (one.what, one.side) == (what, side) and one.done)
        for side in NAMES
    }
    return {side: found for side, found in points.items() if found}


def draw(outcomes: Sequence[Outcome], file: Path) -> None:
    import matplotlib as mpl

    mpl.use("svg")
    # Text stays text, and the same figures make the same file.
    mpl.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "mooring", "font.size": 9})
    from matplotlib import pyplot as plt
    from matplotlib.ticker import ScalarFormatter

    figure, axes = plt.subplots(1, len(PANELS), figsize=(3.1 * len(PANELS), 2.8), sharey=True, layout="constrained")
    for axis, what in zip(axes, PANELS, strict=True):
        found = curves(outcomes, what)
        for side, points in found.items():
            axis.plot(*zip(*points, strict=True), marker="o", markersize=3, label=NAMES[side])
        if found:
            axis.legend(fontsize=7, frameon=False)
        axis.set_xscale("log")
        axis.set_yscale("log")
        axis.xaxis.set_major_formatter(ScalarFormatter())
        axis.set_xticks(sorted({one.nodes for one in outcomes if one.nodes}), minor=False)
        axis.minorticks_off()
        axis.set_title(what, fontsize=8)
        axis.set_xlabel("nodes")
        axis.grid(visible=True, alpha=0.3)
    axes[0].set_ylabel("pods/s")
    file.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(file, metadata={"Date": None})
