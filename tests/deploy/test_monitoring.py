"""Alert rules, dashboard and runbooks agree with the code and with each other."""

import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml
from tools.generate_reference.metrics import labels_by_metric

from mooring.scheduler.metrics import Result
from support.monitoring import ALERTS, ROOT, RUNBOOKS, Expression, Series, expressions, rules

PROMTOOL = shutil.which("promtool")
LABELS = labels_by_metric(ROOT)


def _counted(metric: str, labels: str) -> tuple[Mapping[str, str], Mapping[str, str]]:
    """One event ten minutes ago, and events of long ago."""
    return {f"{metric}{{{labels}}}": "0x110 1x10"}, {f"{metric}{{{labels}}}": "7x120"}


def _decisions(*, within_a_second: str) -> Mapping[str, str]:
    bucket = "scheduler_scheduling_algorithm_duration_seconds_bucket"
    longer = {f'{bucket}{{le="{le}"}}': "0+10x120" for le in ("10", "+Inf")}
    return {f'{bucket}{{le="1"}}': within_a_second} | longer


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


@pytest.mark.skipif(PROMTOOL is None, reason="promtool is not installed")
def test_promtool_accepts_the_rules() -> None:
    done = subprocess.run([str(PROMTOOL), "check", "rules", str(ALERTS)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


#: Alert -> series with which it fires after two hours, and with which it does not; one value a minute.
SCENARIOS: Mapping[str, tuple[Mapping[str, str], Mapping[str, str]]] = {
    "MooringNoLeader": (
        {'leader_election_master_status{name="a", instance="x"}': "0x120"},
        {
            'leader_election_master_status{name="a", instance="x"}': "0x120",
            'leader_election_master_status{name="a", instance="y"}': "1x120",
        },
    ),
    "MooringInvariantViolated": _counted("mooring_invariant_violations_total", 'invariant="i"'),
    "MooringInternalErrors": _counted("mooring_internal_errors_total", 'name="q"'),
    "MooringPermissionDenied": _counted("mooring_missing_rights_total", 'group="", resource="pods", verb="get"'),
    "MooringComponentSkew": (
        {'mooring_component_skew{process="p"}': "1x120"},
        {'mooring_component_skew{process="p"}': "0x110 1x10"},
    ),
    "MooringWorkqueueBacklog": (
        {'workqueue_depth{name="q"}': "200x120"},
        {'workqueue_depth{name="q"}': "0x115 200x5"},
    ),
    "MooringPodsUnschedulable": (
        {'scheduler_schedule_attempts_total{result="unschedulable", profile="p"}': "0+1x120"},
        {
            'scheduler_schedule_attempts_total{result="unschedulable", profile="p"}': "0+1x120",
            'scheduler_schedule_attempts_total{result="scheduled", profile="p"}': "0+1x120",
        },
    ),
    "MooringSchedulingErrors": (
        {'scheduler_schedule_attempts_total{result="error", profile="p"}': "0+1x120"},
        {'scheduler_schedule_attempts_total{result="error", profile="p"}': "9x120"},
    ),
    "MooringSchedulingSlow": (_decisions(within_a_second="0x120"), _decisions(within_a_second="0+10x120")),
    "MooringPodsRejectedByKubelet": _counted("mooring_scheduler_kubelet_rejections_total", 'reason="OutOfcpu"'),
    "MooringExtenderNotCalled": (
        {"mooring_extender_unasked_pods": "0+1x120"},
        {"mooring_extender_unasked_pods": "4x120"},
    ),
    "MooringCapacityStale": (
        {"mooring_capacity_last_poll_timestamp_seconds": "10x120"},
        {"mooring_capacity_last_poll_timestamp_seconds": "0+60x120"},
    ),
    "MooringCapacityObjectsMissing": (
        {"csistoragecapacities_desired_goal": "3x120", "csistoragecapacities_desired_current": "2x120"},
        {"csistoragecapacities_desired_goal": "3x120", "csistoragecapacities_desired_current": "3x120"},
    ),
    "MooringOutOfCapacity": (
        {"mooring_provision_out_of_capacity_total": "0x110 1+1x9"},
        {"mooring_provision_out_of_capacity_total": "0x118 1x1"},
    ),
    "MooringVolumesHeld": (
        {"mooring_held_volumes": "1x120", "mooring_held_volumes_committed_total": "5x120"},
        {"mooring_held_volumes": "1x120", "mooring_held_volumes_committed_total": "0+1x120"},
    ),
    "MooringRollbacksFrequent": (
        {'mooring_held_volumes_rolled_back_total{reason="r"}': "0+1x120"},
        {'mooring_held_volumes_rolled_back_total{reason="r"}': "5x120"},
    ),
    "MooringCsiCallsFail": (
        {'csi_sidecar_operations_seconds_count{grpc_status_code="Internal"}': "0+1x120"},
        {
            'csi_sidecar_operations_seconds_count{grpc_status_code="Internal"}': "0+1x120",
            'csi_sidecar_operations_seconds_count{grpc_status_code="OK"}': "0+5x120",
        },
    ),
}


def test_every_alert_has_scenarios() -> None:
    assert set(SCENARIOS) == {rule["alert"] for rule in rules()}


@pytest.mark.skipif(PROMTOOL is None, reason="promtool is not installed")
def test_alerts_fire_when_they_should(tmp_path: Path) -> None:
    cases = [
        {
            "name": f"{alert} {'fires' if fires else 'is silent'}",
            "interval": "1m",
            "input_series": [{"series": series, "values": values} for series, values in given.items()],
            "promql_expr_test": [
                {
                    "expr": f'count(ALERTS{{alertname="{alert}", alertstate="firing"}})',
                    "eval_time": "120m",
                    "exp_samples": [{"labels": "{}", "value": 1}] if fires else [],
                }
            ],
        }
        for alert, scenarios in SCENARIOS.items()
        for given, fires in zip(scenarios, (True, False), strict=True)
    ]
    file = tmp_path / "cases.yml"
    file.write_text(yaml.safe_dump({"rule_files": [str(ALERTS)], "evaluation_interval": "1m", "tests": cases}))
    done = subprocess.run([str(PROMTOOL), "test", "rules", str(file)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
