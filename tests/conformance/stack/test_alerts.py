"""promtool, Prometheus' own, accepts the alert rules, and each alert fires exactly when it should."""

import subprocess
from collections.abc import Mapping
from pathlib import Path

import yaml

from support.monitoring import ALERTS, rules


def _counted(metric: str, labels: str) -> tuple[Mapping[str, str], Mapping[str, str]]:
    """One event ten minutes ago, and events of long ago."""
    return {f"{metric}{{{labels}}}": "0x110 1x10"}, {f"{metric}{{{labels}}}": "7x120"}


def _decisions(*, within_a_second: str) -> Mapping[str, str]:
    bucket = "scheduler_scheduling_algorithm_duration_seconds_bucket"
    longer = {f'{bucket}{{le="{le}"}}': "0+10x120" for le in ("10", "+Inf")}
    return {f'{bucket}{{le="1"}}': within_a_second} | longer


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


def _promtool(binaries: Path, *arguments: str) -> None:
    done = subprocess.run([binaries / "promtool", *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_rules_are_accepted(binaries: Path) -> None:
    _promtool(binaries, "check", "rules", str(ALERTS))


def test_alerts_fire_when_they_should(binaries: Path, tmp_path: Path) -> None:
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
    _promtool(binaries, "test", "rules", str(file))
