"""The side-by-side benchmark's own arithmetic, table, figure and metering; what it measures needs a real Kubernetes."""

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
        "everybody": {"kube-apiserver": 5.0, "mooring scheduler": 0.8},
    }
    made: Outcome = kube.report.Outcome(**usual | fields)
    return made


def both(kube: SimpleNamespace, **of_kube: object) -> "list[Outcome]":
    return [an_outcome(kube, side=kube.report.KUBE, **of_kube), an_outcome(kube)]


class TestRatios:
    @pytest.mark.parametrize(
        ("of_kube", "ratio"),
        [
            pytest.param({"done": 30, "seconds": 30.0}, 100.0, id="by what each has done in its own time"),
            pytest.param({"done": 400, "seconds": 4.0}, 1.0, id="equally fast"),
            pytest.param({"done": 0, "seconds": 30.0}, 3000.0, id="who did nothing was about to do the first"),
        ],
    )
    def test_ratio(self, kube: SimpleNamespace, of_kube: dict[str, object], ratio: float) -> None:
        (pair,) = kube.report.pairs(both(kube, **of_kube))
        assert pair.ratio == pytest.approx(ratio)

    def test_without_the_other_side_there_is_none(self, kube: SimpleNamespace) -> None:
        (pair,) = kube.report.pairs([an_outcome(kube)])
        assert pair.ratio is None

    def test_sizes_are_compared_with_their_like(self, kube: SimpleNamespace) -> None:
        outcomes = [*both(kube, done=40), an_outcome(kube, nodes=200, seconds=2.0)]
        assert [(pair.mooring.nodes, pair.ratio) for pair in kube.report.pairs(outcomes)] == [(1000, 10.0), (200, None)]

    @pytest.mark.parametrize(("nodes", "bar"), [(1000, 100.0), (500, None)])
    def test_the_bar_is_for_one_size(self, kube: SimpleNamespace, nodes: int, bar: float | None) -> None:
        (pair,) = kube.report.pairs([an_outcome(kube, nodes=nodes)])
        assert pair.bar == bar


class TestTable:
    def test_a_row_for_each_measurement(self, kube: SimpleNamespace) -> None:
        *_, row = kube.report.table(both(kube, done=30, seconds=30.0, cpu_seconds=30.0)).splitlines()
        cells = ["1,000", "1/s", "100/s", "100", "100", "1 s / 2 ms", "193 ms / 14.5 ms", "100 MB / 100 MB"]
        assert row == f"| {kube.report.LOCAL} | {' | '.join(cells)} |"

    def test_what_is_unknown_is_not_made_up(self, kube: SimpleNamespace) -> None:
        *_, row = kube.report.table([an_outcome(kube)]).splitlines()
        assert "not measured" in row
        assert "? / 2 ms" in row

    def test_the_line_names_who_used_the_cores(self, kube: SimpleNamespace) -> None:
        text = kube.report.line(an_outcome(kube))
        assert "400 of 400 in 4.0 s, 100/s, 2 ms of CPU each" in text
        assert text.endswith("cores: kube-apiserver 1.25, mooring scheduler 0.20")


class TestFigure:
    def test_curves_are_sorted_by_size_and_leave_out_nothing_done(self, kube: SimpleNamespace) -> None:
        nothing = an_outcome(kube, side=kube.report.KUBE, done=0)
        outcomes = [an_outcome(kube), nothing, an_outcome(kube, nodes=200)]
        assert kube.plot.curves(outcomes, kube.report.LOCAL) == {"mooring": [(200, 100.0), (1000, 100.0)]}

    def test_equal_figures_make_equal_files(self, kube: SimpleNamespace, tmp_path: Path) -> None:
        for name in ("one.svg", "two.svg"):
            kube.plot.draw(both(kube, done=30), tmp_path / name)
        assert (tmp_path / "one.svg").read_bytes() == (tmp_path / "two.svg").read_bytes()
        assert "kube-scheduler" in (tmp_path / "one.svg").read_text()


@pytest.mark.skipif(sys.platform != "linux", reason="reads what Linux keeps under /proc")
class TestMetering:
    def test_children_are_known_by_what_they_are(self, kube: SimpleNamespace) -> None:
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

    def test_time_is_what_passed_between_two_looks(self, kube: SimpleNamespace) -> None:
        usage = kube.metering.Usage
        before, after = {"a": usage(1.0, 5)}, {"a": usage(3.0, 9), "new": usage(0.5, 2)}
        assert kube.metering.spent(before, after) == {"a": usage(2.0, 9), "new": usage(0.5, 2)}
