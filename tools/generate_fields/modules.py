"""Fetches the published Go modules that define the Kubernetes API, by name and version.

The only part of the generator that needs Go and the network; Go verifies the checksums.
"""

import json
import os
import subprocess
from pathlib import Path


def fetch(module: str, version: str, into: Path) -> Path:
    """The directory of the module's sources, downloaded below `into`."""
    done = subprocess.run(
        ["go", "mod", "download", "-json", f"{module}@{version}"],
        cwd=into,
        env=os.environ | {"GOPATH": str(into / "go"), "GOFLAGS": "-modcacherw"},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise SystemExit(f"go could not download {module}@{version}: {done.stderr or done.stdout}")
    return Path(json.loads(done.stdout)["Dir"])
