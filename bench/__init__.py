"""Benchmarks, each a program: `python -m bench.NAME --help`. They use the builders and processes of the tests."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
