"""Alert rules, dashboard and runbooks agree with the code and with each other."""

import re
import subprocess
import sys

import pytest
from tools.generate_reference.metrics import labels_by_metric

from mooring.scheduler.metrics import Result
from support.monitoring import ROOT, RUNBOOKS, Expression, Series, expressions, rules

LABELS = labels_by_metric(ROOT)


def test_every_metric_and_label_exists() -> None:
    assert [problem for one in expressions() for problem in one.problems(LABELS)] == []


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        pytest.param("sum(mooring_unknown)", "x: no metric mooring_unknown", id="no such metric"),
        pytest.param('workqueue_depth{queue="a"}', "x: workqueue_depth has no label queue", id="no such matcher"),
        pytest.param("sum by (queue) (workqueue_depth)", "x: no metric of it has label queue", id="no such grouping"),
        pytest.param("rate(workqueue_wait_bucket[5m])", "x: no metric workqueue_wait_bucket", id="no such histogram"),
    ],
)
def test_expression_with_what_does_not_exist_is_found(text: str, problem: str) -> None:
    assert list(Expression("x", text).problems(LABELS)) == [problem]


def test_series_and_labels_are_taken_from_expressions() -> None:
    text = 'sum by (le, name) (rate(a_bucket{x="1", y!="2"}[5m])) > 1 unless on (instance) b > 0'
    one = Expression("x", text)
    assert list(one.series) == [Series("a_bucket", {"x": "1", "y": ""}), Series("b", {})]
    assert one.grouping == {"le", "name", "instance"}


def test_results_of_scheduling_attempts_are_those_of_the_scheduler() -> None:
    named = {one.matchers["result"] for each in expressions() for one in each.series if "result" in one.matchers}
    assert named
    assert named <= {result.value for result in Result}


def test_every_alert_has_a_runbook_and_no_runbook_is_left_over() -> None:
    headings = re.findall(r"^## (Mooring\w+)$", RUNBOOKS.read_text(), re.MULTILINE)
    assert headings == [rule["alert"] for rule in rules()]
    for rule in rules():
        assert rule["annotations"]["runbook"] == f"docs/runbooks.md#{rule['alert'].lower()}"
        assert rule["labels"]["severity"] in ("critical", "warning")


def test_dashboard_is_up_to_date() -> None:
    subprocess.run([sys.executable, "-m", "tools.generate_dashboard", "--check"], cwd=ROOT, check=True)
