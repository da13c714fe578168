"""Arithmetic, table, figure and metering of the side-by-side benchmark; its measurements need a real Kubernetes."""

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from bench.kube.report import Outcome


ROOT = Path(__file__).parents[2]


@pytest.fixture
def kube(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """The benchmark's modules; they live beside the package, not in it."""
    monkeypatch.syspath_prepend(ROOT)
    from bench.kube import metering, plot, report

    return SimpleNamespace(metering=metering, plot=plot, report=report)


def an_outcome(kube: SimpleNamespace, **fields: object) -> "Outcome":
    usual = {
        "what": kube.report.LOCAL,
        "side": kube.report.MOORING,
        "nodes": 1000,
        "asked": 400,
        "done": 400,
        "seconds": 4.0,
        "cpu_seconds": 0.8,
        "peak_bytes": 100_000_000,
        "cpu_by_process": {"kube-apiserver": 5.0, "mooring scheduler": 0.8},
    }
    made: Outcome = kube.report.Outcome(**usual | fields)
    return made


def both(kube: SimpleNamespace, **of_kube: object) -> "list[Outcome]":
    return [an_outcome(kube, side=kube.report.KUBE, **of_kube), an_outcome(kube)]


class TestRatios:
    @pytest.mark.parametrize(
        ("of_kube", "ratio"),
        [
            pytest.param({"done": 30, "seconds": 30.0}, 100.0, id="rates over different times"),
            pytest.param({"done": 400, "seconds": 4.0}, 1.0, id="equal rates"),
            pytest.param({"done": 0, "seconds": 30.0}, 3000.0, id="nothing done counts as one"),
        ],
    )
    def test_ratio(self, kube: SimpleNamespace, of_kube: dict[str, object], ratio: float) -> None:
        (pair,) = kube.report.pairs(both(kube, **of_kube))
        assert pair.ratio == pytest.approx(ratio)

    def test_ratio_needs_both_sides(self, kube: SimpleNamespace) -> None:
        (pair,) = kube.report.pairs([an_outcome(kube)])
        assert pair.ratio is None

    def test_equal_sizes_are_compared(self, kube: SimpleNamespace) -> None:
        outcomes = [*both(kube, done=40), an_outcome(kube, nodes=200, seconds=2.0)]
        assert [(pair.mooring.nodes, pair.ratio) for pair in kube.report.pairs(outcomes)] == [(1000, 10.0), (200, None)]

    @pytest.mark.parametrize(("nodes", "bar"), [(1000, 150.0), (500, None)])
    def test_threshold_is_for_one_size(self, kube: SimpleNamespace, nodes: int, bar: float | None) -> None:
        (pair,) = kube.report.pairs([an_outcome(kube, nodes=nodes)])
        assert pair.bar == bar


class TestTable:
    def test_table_has_a_row_for_each_measurement(self, kube: SimpleNamespace) -> None:
        *_, row = kube.report.table(both(kube, done=30, seconds=30.0, cpu_seconds=30.0)).splitlines()
        cells = ["1,000", "1/s", "100/s", "100", "150", "1 s / 2 ms", "193 ms / 14.5 ms", "100 MB / 100 MB"]
        assert row == f"| {kube.report.LOCAL} | {' | '.join(cells)} |"

    def test_missing_values_stay_empty(self, kube: SimpleNamespace) -> None:
        *_, row = kube.report.table([an_outcome(kube)]).splitlines()
        assert "not measured" in row
        assert "? / 2 ms" in row

    def test_summary_names_the_processes_by_cpu(self, kube: SimpleNamespace) -> None:
        text = kube.report.line(an_outcome(kube))
        assert "400 of 400 in 4.0 s, 100/s, 2 ms of CPU each" in text
        assert text.endswith("cores: kube-apiserver 1.25, mooring scheduler 0.20")


class TestFigure:
    def test_curves_are_sorted_by_size(self, kube: SimpleNamespace) -> None:
        nothing = an_outcome(kube, side=kube.report.KUBE, done=0)
        outcomes = [an_outcome(kube), nothing, an_outcome(kube, nodes=200)]
        assert kube.plot.curves(outcomes, kube.report.LOCAL) == {"mooring": [(200, 100.0), (1000, 100.0)]}

    def test_plots_are_deterministic(self, kube: SimpleNamespace, tmp_path: Path) -> None:
        for name in ("one.svg", "two.svg"):
            kube.plot.draw(both(kube, done=30), tmp_path / name)
        assert (tmp_path / "one.svg").read_bytes() == (tmp_path / "two.svg").read_bytes()
        assert "kube-scheduler" in (tmp_path / "one.svg").read_text()


@pytest.mark.skipif(sys.platform != "linux", reason="reads what Linux keeps under /proc")
class TestMetering:
    def test_child_processes_are_named_by_command(self, kube: SimpleNamespace) -> None:
        # The second looks like one of ours, however Python was asked to run it.
        waiting = "import time; print(flush=True); time.sleep(60)"
        commands = (["-c", waiting], ["-c", waiting, "mooring", "scheduler"])
        children = [subprocess.Popen([sys.executable, *words], stdout=subprocess.PIPE) for words in commands]
        try:
            for child in children:
                assert child.stdout is not None
                child.stdout.readline()
                child.stdout.close()
            used = kube.metering.usage()
        finally:
            for child in children:
                child.kill()
                child.wait()
        assert {"bench", Path(sys.executable).name, "mooring scheduler"} <= used.keys()
        assert used["mooring scheduler"].peak_bytes > 1_000_000

    def test_cpu_time_is_the_difference_of_two_samples(self, kube: SimpleNamespace) -> None:
        usage = kube.metering.Usage
        before, after = {"a": usage(1.0, 5)}, {"a": usage(3.0, 9), "new": usage(0.5, 2)}
        assert kube.metering.spent(before, after) == {"a": usage(2.0, 9), "new": usage(0.5, 2)}
