"""Small programs with the published Python clients, each in a process of its own.

Several clients leave connections open, which this suite treats as an error; hence the separate process. A program finds
the kubeconfig at the default location and prints its result.
"""

import os
import subprocess
import sys
import textwrap
from pathlib import Path


class Programs:
    def __init__(self, kubeconfig: Path) -> None:
        self._kubeconfig = kubeconfig

    def __call__(self, source: str, **values: str) -> str:
        """Run the program with these values as environment variables; returns its output."""
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", textwrap.dedent(source)],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            env=os.environ | {"KUBECONFIG": str(self._kubeconfig)} | values,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()
