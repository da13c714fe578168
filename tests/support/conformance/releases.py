"""Which release of Kubernetes the tests run against; expectations that differ by release are asked of it."""

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Release:
    #: Such as v1.37.1.
    version: str

    @property
    def minor(self) -> int:
        return int(self.version.split(".")[1])

    @property
    def name(self) -> str:
        """Such as 1.37."""
        return f"1.{self.minor}"


def release_of(binaries: Path) -> Release:
    """The release that the API server of this directory reports."""
    told = subprocess.run([binaries / "kube-apiserver", "--version"], capture_output=True, text=True, check=True)
    found = re.search(r"v\d+\.\d+\.\d+\S*", told.stdout)
    assert found is not None, told.stdout
    return Release(found[0])
