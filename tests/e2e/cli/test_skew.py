"""Skew between processes of the control plane is reported."""

import os
import signal
import subprocess
import sys

import pytest

from support.e2e.cluster import Cluster
from support.e2e.workspace import Workspace


@pytest.mark.req("T35.skew")
def test_feature_gate_skew_is_reported(cluster: Cluster) -> None:
    command = [sys.executable, "-m", "mooring", "scheduler", "--scheduler-name", "second", "--no-http"]
    gates = ["--feature-gates", "VolumeScheduling=false"]
    scheduler = subprocess.Popen(
        [*command, *gates, "--kubeconfig", str(cluster.kubeconfig)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env=dict(os.environ),
    )
    try:
        system = Workspace(cluster, "kube-system")
        message = "VolumeScheduling is false in mooring-scheduler and true in mooring-control-plane"

        def reported() -> bool:
            events = system.items("events", "--field-selector=reason=ComponentSkew")
            return any(event["message"].startswith(message) for event in events)

        system.wait_for(reported)
    finally:
        scheduler.send_signal(signal.SIGTERM)
        _, errors = scheduler.communicate(timeout=30)
    assert b"Traceback" not in errors
