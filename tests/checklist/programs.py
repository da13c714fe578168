"""Small programs with the published Python clients, each in a process of its own.

Their own process, because several of them leave connections open behind them, which this suite treats as an error.
A program finds the kubeconfig where clients look for it and prints what the test wants to know.
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
        """Run it, with these values as environment variables, and return what it printed."""
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
