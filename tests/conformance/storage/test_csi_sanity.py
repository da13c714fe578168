"""The public csi-sanity suite against `mooring csi-hostpath`, for every capability the driver can advertise."""

import json
import subprocess
from pathlib import Path

import pytest

from support.hostpath.command import csi_hostpath, recorded_volumes

#: Seconds; the suite takes two on an idle machine.
SUITE = 300


@pytest.mark.req("C11.sanity")
@pytest.mark.parametrize("kind", ["mount", "block"])
@pytest.mark.parametrize(
    ("options", "most_skipped"),
    [
        pytest.param(("--pool", "default=100Gi"), 66, id="defaults"),
        pytest.param(("--pool", "default=100Gi", "--enable-attach", "--max-volumes-per-node", "4"), 56, id="attach"),
        pytest.param(("--pool", "default=100Gi", "--publish", "link"), 66, id="links"),
        pytest.param(("--pool", "default=100Gi", "--serve", "node-2:zone=b"), 66, id="central"),
    ],
)
def test_csi_sanity_passes(
    binaries: Path, tmp_path: Path, kind: str, options: tuple[str, ...], most_skipped: int
) -> None:
    report = tmp_path / "report.json"
    with csi_hostpath(tmp_path, *options):
        suite = subprocess.run(
            [
                binaries / "csi-sanity",
                f"--csi.endpoint=unix://{tmp_path / 'csi.sock'}",
                f"--csi.mountdir={tmp_path / 'mount'}",
                f"--csi.stagingdir={tmp_path / 'staging'}",
                f"--csi.testvolumeaccesstype={kind}",
                "--csi.testnodevolumeattachlimit",
                "--ginkgo.no-color",
                f"--ginkgo.json-report={report}",
            ],
            capture_output=True,
            text=True,
            timeout=SUITE,
            check=False,
        )
    assert suite.returncode == 0, suite.stdout
    states = [spec["State"] for spec in json.loads(report.read_text())[0]["SpecReports"]]
    # Snapshots, clones, expansion, attribute classes, statistics and groups are not advertised; the rest must run.
    assert set(states) == {"passed", "skipped", "pending"}
    assert states.count("skipped") <= most_skipped
    assert recorded_volumes(tmp_path) == [], "the suite cleans up, and so did the driver"
    assert list((tmp_path / "state" / "volumes").iterdir()) == []
