"""Alert rules and dashboard against the metrics that running processes serve."""

import re
import subprocess
import sys
import urllib.request
from collections.abc import Iterator

import pytest
from tools.generate_reference.metrics import labels_by_metric

from support.builders import claim_body, pod_body
from support.e2e.workspace import Workspace
from support.monitoring import ROOT, expressions

#: Line by which a process prints where its metrics are.
AT = re.compile(r"health and metrics at (\S+)")
TYPE = re.compile(r"^# TYPE (\w+) \w+$", re.MULTILINE)
SAMPLE = re.compile(r"^(\w+)\{(.*)\} \S+$", re.MULTILINE)
LABEL = re.compile(r'(\w+)="')


def served(text: str) -> dict[str, frozenset[str]]:
    """Metrics of a scrape with the labels of their samples; without labels where there is no sample yet."""
    found = dict.fromkeys(TYPE.findall(text), frozenset[str]())
    for name, labels in SAMPLE.findall(text):
        base = re.sub(r"_(?:bucket|count|sum)$", "", name)
        found[name if name in found else base] = frozenset(LABEL.findall(labels)) - {"le"}
    return found


@pytest.fixture
def extender(workspace: Workspace) -> Iterator[str]:
    """URL of the metrics of an extender beside the cluster."""
    ports = ("--extender-port=0", "--http-port=0", "--kubeconfig", str(workspace.cluster.kubeconfig))
    command = [sys.executable, "-m", "mooring", "extender", *ports]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert process.stdout is not None
    try:
        yield next(found[1] for line in process.stdout if (found := AT.search(line)) is not None)
    finally:
        process.terminate()
        process.communicate(timeout=30)


@pytest.mark.req("C27.metrics-exist")
def test_alerts_and_dashboard_use_served_metrics(workspace: Workspace, extender: str) -> None:
    workspace.apply(
        claim_body(name="data", namespace="", storage_class="fast", size="1Gi"),
        pod_body(name="web", namespace="", claims=["data"]),
    )
    workspace.wait_for(lambda: workspace.node_of("web") != "")
    scraped = served(workspace.cluster("get", "--raw", "/metrics"))
    with urllib.request.urlopen(f"{extender.rstrip('/')}/metrics") as answer:
        scraped |= served(answer.read().decode())
    written = labels_by_metric(ROOT)
    for name, labels in scraped.items():
        # The code may add labels that several metrics share to those it lists.
        assert not labels or written.get(name, labels) <= labels, f"{name} is served with {sorted(labels)}"
    known = {name: labels or written.get(name, frozenset()) for name, labels in scraped.items()}
    assert [problem for one in expressions() for problem in one.problems(known)] == []
