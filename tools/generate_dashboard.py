"""Writes deploy/monitoring/dashboard.json, the dashboard for Grafana: `python -m tools.generate_dashboard [--check]`.

Grafana's JSON has thirty lines per panel; the table below has what differs between them.
"""

import json
import sys
from pathlib import Path
from typing import Any, Final, NamedTuple

FILE: Final = Path(__file__).parents[1] / "deploy" / "monitoring" / "dashboard.json"
#: Grafana's grid has 24 columns; three panels share a row.
WIDTH: Final = 8
HEIGHT: Final = 7
SECONDS: Final = "s"
SHORT: Final = "short"


class Panel(NamedTuple):
    title: str
    #: Expression and legend of each series.
    series: tuple[tuple[str, str], ...]
    unit: str = SHORT


class Row(NamedTuple):
    title: str
    panels: tuple[Panel, ...]


def quantile(share: str, metric: str, by: str = "") -> str:
    labels = f"le, {by}" if by else "le"
    return f"histogram_quantile({share}, sum by ({labels}) (rate({metric}_bucket[$__rate_interval])))"


def rate(metric: str, by: str, matcher: str = "") -> str:
    return f"sum by ({by}) (rate({metric}{matcher}[$__rate_interval]))"


ROWS: Final = (
    Row(
        "Scheduling",
        (
            Panel("Scheduling attempts", ((rate("scheduler_schedule_attempts_total", "result"), "{{result}}"),)),
            Panel(
                "Duration of decisions",
                (
                    (quantile("0.5", "scheduler_scheduling_algorithm_duration_seconds"), "median"),
                    (quantile("0.99", "scheduler_scheduling_algorithm_duration_seconds"), "99 %"),
                ),
                SECONDS,
            ),
            Panel(
                "Duration of attempts, with binding",
                ((quantile("0.99", "scheduler_scheduling_attempt_duration_seconds", "result"), "99 % {{result}}"),),
                SECONDS,
            ),
            Panel("Attempts until scheduled", ((quantile("0.9", "scheduler_pod_scheduling_attempts"), "90 %"),)),
            Panel(
                "Preemption",
                (
                    ("sum(rate(scheduler_preemption_attempts_total[$__rate_interval]))", "attempts"),
                    ("sum(rate(scheduler_preemption_victims_sum[$__rate_interval]))", "victims"),
                ),
            ),
            Panel(
                "Pods rejected by kubelets",
                ((rate("mooring_scheduler_kubelet_rejections_total", "reason"), "{{reason}}"),),
            ),
        ),
    ),
    Row(
        "Volumes",
        (
            Panel("Claims bound", ((rate("mooring_scheduler_volume_bindings_total", "kind"), "{{kind}}"),)),
            Panel(
                "Held volumes",
                (
                    ("sum(mooring_held_volumes)", "held"),
                    ("sum(rate(mooring_held_volumes_committed_total[$__rate_interval]))", "committed per second"),
                    (rate("mooring_held_volumes_rolled_back_total", "reason"), "rolled back per second: {{reason}}"),
                ),
            ),
            Panel(
                "Duration of holds",
                ((quantile("0.99", "mooring_volume_hold_duration_seconds"), "99 %"),),
                SECONDS,
            ),
            Panel(
                "CSI calls",
                (
                    (
                        rate("csi_sidecar_operations_seconds_count", "method_name, grpc_status_code"),
                        "{{method_name}} {{grpc_status_code}}",
                    ),
                ),
            ),
            Panel(
                "Duration of CSI calls",
                ((quantile("0.99", "csi_sidecar_operations_seconds", "method_name"), "99 % {{method_name}}"),),
                SECONDS,
            ),
            Panel(
                "CreateVolume without capacity",
                (("sum(rate(mooring_provision_out_of_capacity_total[$__rate_interval]))", "failures per second"),),
            ),
        ),
    ),
    Row(
        "Capacity",
        (
            Panel(
                "CSIStorageCapacity objects",
                (
                    ("sum(csistoragecapacities_desired_goal)", "desired"),
                    ("sum(csistoragecapacities_desired_current)", "existing"),
                    ("sum(csistoragecapacities_obsolete)", "obsolete"),
                ),
            ),
            Panel(
                "Time since the last poll",
                (("time() - mooring_capacity_last_poll_timestamp_seconds", "{{instance}}"),),
                SECONDS,
            ),
            Panel(
                "Claims unbound because they kept a pod off every node",
                (("sum(rate(mooring_scheduler_claims_unbound_total[$__rate_interval]))", "claims per second"),),
            ),
        ),
    ),
    Row(
        "Components",
        (
            Panel("Leaders", (("leader_election_master_status", "{{name}} {{instance}}"),)),
            Panel("Version and gate skew", (("mooring_component_skew", "{{process}}"),)),
            Panel("Versions", (("count by (version) (mooring_build_info)", "{{version}}"),)),
            Panel("Work queues", (("sum by (name) (workqueue_depth)", "{{name}}"),)),
            Panel(
                "Time in work queues",
                ((quantile("0.99", "workqueue_queue_duration_seconds", "name"), "99 % {{name}}"),),
                SECONDS,
            ),
            Panel("Retries", ((rate("workqueue_retries_total", "name"), "{{name}}"),)),
            Panel(
                "Errors",
                (
                    (rate("mooring_internal_errors_total", "name"), "internal error: {{name}}"),
                    (rate("mooring_scheduler_internal_errors_total", "stage"), "scheduling: {{stage}}"),
                    (rate("mooring_missing_rights_total", "resource, verb"), "denied: {{verb}} {{resource}}"),
                    (rate("mooring_invariant_violations_total", "invariant"), "invariant: {{invariant}}"),
                ),
            ),
            Panel("Objects in memory", (("sum by (component) (mooring_remembered_objects)", "{{component}}"),)),
            Panel(
                "Extender calls",
                (
                    (rate("mooring_extender_calls_total", "verb, result"), "{{verb}} {{result}}"),
                    ("sum(rate(mooring_extender_unasked_pods[$__rate_interval]))", "pods scheduled without a call"),
                ),
            ),
        ),
    ),
    Row(
        "API server of the embedded cluster",
        (
            Panel("Requests", ((rate("apiserver_request_total", "verb, code"), "{{verb}} {{code}}"),)),
            Panel(
                "Duration of requests",
                ((quantile("0.99", "apiserver_request_duration_seconds", "verb"), "99 % {{verb}}"),),
                SECONDS,
            ),
            Panel("Objects", (("sum by (resource) (apiserver_storage_objects)", "{{resource}}"),)),
        ),
    ),
)


def dashboard() -> dict[str, Any]:
    panels: list[dict[str, Any]] = []
    top = 0
    for row in ROWS:
        panels.append(_row(row.title, len(panels) + 1, top))
        top += 1
        for position, panel in enumerate(row.panels):
            place = {"x": position % 3 * WIDTH, "y": top + position // 3 * HEIGHT, "w": WIDTH, "h": HEIGHT}
            panels.append(_panel(panel, len(panels) + 1, place))
        top += -(-len(row.panels) // 3) * HEIGHT
    source = {"name": "datasource", "type": "datasource", "query": "prometheus", "label": "Prometheus"}
    return {
        "uid": "mooring",
        "title": "Mooring",
        "tags": ["kubernetes", "storage"],
        "schemaVersion": 39,
        "refresh": "30s",
        "time": {"from": "now-3h", "to": "now"},
        "templating": {"list": [source]},
        "panels": panels,
    }


def _row(title: str, number: int, top: int) -> dict[str, Any]:
    place = {"x": 0, "y": top, "w": 3 * WIDTH, "h": 1}
    return {"id": number, "type": "row", "title": title, "collapsed": False, "gridPos": place, "panels": []}


def _panel(panel: Panel, number: int, place: dict[str, int]) -> dict[str, Any]:
    source = {"type": "prometheus", "uid": "${datasource}"}
    return {
        "id": number,
        "type": "timeseries",
        "title": panel.title,
        "datasource": source,
        "gridPos": place,
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "options": {"legend": {"displayMode": "list", "placement": "bottom"}, "tooltip": {"mode": "multi"}},
        "targets": [
            {"refId": chr(ord("A") + index), "datasource": source, "expr": expression, "legendFormat": legend}
            for index, (expression, legend) in enumerate(panel.series)
        ],
    }


def main() -> int:
    text = json.dumps(dashboard(), indent=2) + "\n"
    if "--check" in sys.argv[1:]:
        return 0 if FILE.read_text() == text else 1
    FILE.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
