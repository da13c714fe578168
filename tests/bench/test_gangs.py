"""Counting, tables and flags of the benchmark of gangs; its measurements need a real Kubernetes."""

import sys
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """The benchmark's modules; they live beside the package, not in it."""
    monkeypatch.syspath_prepend(ROOT)
    from bench.kube import gangs as kube_gangs
    from bench.kube import report

    from bench import gangs

    return SimpleNamespace(program=gangs, gangs=kube_gangs, report=report)


@pytest.mark.parametrize(
    ("bound", "expected"),
    [
        pytest.param([], (0, 0), id="nothing"),
        pytest.param([3, 3], (2, 0), id="all whole"),
        pytest.param([3, 2, 1, 0], (1, 2), id="a gang without any is not partial"),
    ],
)
def test_gangs_are_whole_or_partial(bench: SimpleNamespace, bound: Sequence[int], expected: tuple[int, int]) -> None:
    assert bench.gangs.whole_and_partial(bound, 3) == expected


def test_table_has_a_row_for_each_side(bench: SimpleNamespace) -> None:
    def outcome(side: str, done: int) -> object:
        cpu = {"kube-apiserver": 6.0, "scheduler": 3.0}
        return bench.report.Outcome("local", side, 1000, 30, done, 30.0, 3.0, 100_000_000, cpu)

    one = bench.gangs.GangOutcome(outcome(bench.report.MOORING, 30), 10, 3, 3, 0)
    none = bench.gangs.GangOutcome(outcome(bench.report.KUBE, 0), 10, 3, 0, 0)
    rows = bench.gangs.gang_table([one, none]).splitlines()[2:]
    assert rows == [
        "| local | 3 of 10 | Mooring | 3 | 0 | 6 | 1 | 100 ms | 300 ms | 100 MB |",
        "| local | 3 of 10 | kube-scheduler | 0 | 0 | 0 | 0 | 3 s for none | 9 s for none | 100 MB |",
    ]


def test_share_at_the_first_attempt(bench: SimpleNamespace) -> None:
    found = bench.gangs.FirstAttempts(bench.report.KUBE, 4, 1, 2, 1)
    assert bench.gangs.first_attempt_table([found]).splitlines()[2:] == ["| kube-scheduler | 1 of 4 (25 %) | 2 | 1 |"]


@pytest.mark.parametrize(
    ("words", "sizes", "timeout"),
    [
        pytest.param([], (10, 100, 1000), 30.0, id="defaults"),
        pytest.param(["--quick"], (5, 25), 8.0, id="quick"),
        pytest.param(["--sizes", "4", "--timeout", "300"], (4,), 300.0, id="given"),
    ],
)
def test_flags(
    bench: SimpleNamespace, monkeypatch: pytest.MonkeyPatch, words: list[str], sizes: tuple[int, ...], timeout: float
) -> None:
    monkeypatch.setattr(sys, "argv", ["gangs", *words])
    amounts = bench.program.amounts_of(bench.program.parse())
    assert (amounts.sizes, amounts.timeout) == (sizes, timeout)
