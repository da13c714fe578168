"""Mutations of the product that a guard must detect: `python -m tools.mutations [NAME ...]`.

Each row of `tests/mutations/*.toml` removes one fix and names the tests that fail without it. A run copies the tree
to a temporary folder, applies one mutation at a time, and checks that its tests fail there; `--table` writes the rows
to docs/fault-runs.md. `tests/repository/test_mutations.py` checks that every row still applies.

`--baseline` runs the tests of each row without its mutation first: tests that fail anyway, or are skipped because the
binaries of Kubernetes are missing, show nothing about a fix.

A row that breaks a clause of the requirements says `--clause=NAME`: the tests that name the clause must fail. The
ratchet counts the clauses without a row, and `python -m tools.tree_counts --list "clauses without"` lists them.
"""

import argparse
import compileall
import os
import re
import resource
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Sequence
from pathlib import Path
from py_compile import PycInvalidationMode
from typing import Final

import msgspec

ROOT: Final = Path(__file__).parents[1]
FOLDER: Final = ROOT / "tests" / "mutations"
PAGE: Final = ROOT / "docs" / "fault-runs.md"
#: The table follows this line and ends at the next empty line.
MARK: Final = "<!-- written by python -m tools.mutations --table -->"
#: pytest's exit code for failed tests; any other means that the tests did not run.
_FAILED: Final = 1
#: Also an error inside an ExceptionGroup, which pytest shows behind bars.
_FAILURE: Final = re.compile(r"^(?:FAILED |E   |[ |]+\| \w*Error\b).*", re.MULTILINE)
_CLAUSE: Final = re.compile(r"--clause=(\S+)")
#: Some fixes bound memory: without them a test fails with MemoryError before it takes that of other processes.
_MEMORY_BYTES: Final = 3 << 30
#: Tests that start etcd or Chromium, which map more than that: they would end at once, and look like failed tests.
_UNLIMITED: Final = re.compile(r"tests/(?:conformance|web)/")
_PASSED: Final = re.compile(r"\b[1-9]\d* passed\b")
#: A test that does not end is not one that fails.
_SECONDS: Final = 900


class Mutation(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A removed fix, and the tests that must fail without it."""

    name: str
    #: The fix that is removed, for the table.
    removes: str
    path: str
    old: str
    new: str
    #: Arguments of pytest; of several runs, each must fail.
    tests: str | tuple[str, ...]
    #: A second text of the file, where one fix is in two places.
    old_too: str = ""
    new_too: str = ""
    #: Number of seeds of simulated runs, if more than those of `make test` are needed.
    seeds: int | None = None

    def problem(self, text: str) -> str:
        """Why the mutation cannot be applied to its file; "" if it can."""
        for old, new in self._edits:
            times = text.count(old)
            if old == new or times != 1:
                return f"{self.name}: the old text occurs {times} times in {self.path}, or equals the new text"
        return ""

    def applied(self, text: str) -> str:
        for old, new in self._edits:
            text = text.replace(old, new)
        return text

    @property
    def _edits(self) -> tuple[tuple[str, str], ...]:
        return ((self.old, self.new), *([(self.old_too, self.new_too)] if self.old_too else ()))

    @property
    def runs(self) -> tuple[str, ...]:
        """Arguments of pytest, for each run."""
        return (self.tests,) if isinstance(self.tests, str) else self.tests

    @property
    def clauses(self) -> frozenset[str]:
        """The clauses of the requirements that it breaks."""
        return frozenset(clause for run in self.runs for clause in _CLAUSE.findall(run))

    @property
    def commands(self) -> tuple[str, ...]:
        seeds = "" if self.seeds is None else f"MOORING_SIM_SEEDS={self.seeds} "
        return tuple(f"{seeds}pytest {run}" for run in self.runs)


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    mutation: tuple[Mutation, ...]


def load() -> list[Mutation]:
    return [
        each
        for path in sorted(FOLDER.glob("*.toml"))
        for each in msgspec.convert(tomllib.loads(path.read_text()), _File).mutation
    ]


def table(mutations: Sequence[Mutation]) -> str:
    rows = [
        f"| `{each.name}` | {each.removes} | {'<br>'.join(f'`{one}`' for one in each.commands)} |".replace("\n", " ")
        for each in mutations
    ]
    return "\n".join(["| mutation | fix removed | fails |", "|---|---|---|", *rows])


def with_table(page: str, mutations: Sequence[Mutation]) -> str:
    before, mark, after = page.partition(f"{MARK}\n")
    if not mark:
        raise SystemExit(f"no line {MARK} in {PAGE.name}")
    _, _, rest = after.partition("\n\n")
    return f"{before}{mark}{table(mutations)}\n\n{rest}"


def _copy(to: Path) -> None:
    listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    for line in subprocess.run(listed, cwd=ROOT, check=True, capture_output=True, text=True).stdout.splitlines():
        if (ROOT / line).is_file():
            (to / line).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / line, to / line)
    # Checked by content: by time and size, which two mutations may share, the byte code of another would be found.
    compileall.compile_dir(to / "src", quiet=1, invalidation_mode=PycInvalidationMode.CHECKED_HASH)


def _tests(mutation: Mutation, run: str, tree: Path) -> subprocess.CompletedProcess[str]:
    """Hypothesis draws the same examples in each run, as in CI; a failing plan of faults is not shrunk."""
    environment = os.environ | {"PYTHONPATH": f"{tree / 'src'}", "CI": "1", "MOORING_SIM_SHRINKING_RUNS": "0"}
    environment.pop("MOORING_SIM_SEEDS", None)
    if mutation.seeds is not None:
        environment["MOORING_SIM_SEEDS"] = str(mutation.seeds)
    command = [sys.executable, "-m", "pytest", "-x", "-p", "no:cacheprovider", *shlex.split(run)]
    return subprocess.run(
        ["timeout", str(_SECONDS), *command],
        cwd=tree,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=None if _UNLIMITED.search(run) else _limit_memory,
    )


def _limit_memory() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))


def passes_without(mutation: Mutation, tree: Path) -> bool:
    """Whether every run of its tests passes in the copied tree; prints a line about each that does not."""
    for run in mutation.runs:
        done = _tests(mutation, run, tree)
        if done.returncode or not _PASSED.search(done.stdout):
            print(f"{mutation.name}: BASELINE FAILS, exit code {done.returncode}", done.stdout[-2000:], flush=True)
            return False
    return True


def is_detected(mutation: Mutation, tree: Path) -> bool:
    """Whether every run of its tests fails in the copied tree with the mutation; prints a line about each."""
    path = tree / mutation.path
    text = path.read_text()
    if problem := mutation.problem(text):
        print(problem)
        return False
    path.write_text(mutation.applied(text))
    try:
        missed = [run for run in mutation.runs if not _fails(mutation, run, tree)]
    finally:
        path.write_text(text)
    return not missed


def _fails(mutation: Mutation, run: str, tree: Path) -> bool:
    began = time.perf_counter()
    done = _tests(mutation, run, tree)
    seconds = time.perf_counter() - began
    found = _FAILURE.search(done.stdout)
    verdict = {_FAILED: "detected", 0: "NOT DETECTED"}.get(done.returncode, f"NOT RUN, exit code {done.returncode}")
    print(f"{mutation.name}: {verdict}, {seconds:.0f} s: {found[0][:160] if found else ''}", flush=True)
    if done.returncode not in (0, _FAILED):
        print(done.stdout[-2000:], done.stderr[-2000:])
    return done.returncode == _FAILED


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="start of a name; all mutations if none is given")
    parser.add_argument("--table", action="store_true", help=f"write the table in {PAGE.name} and run nothing")
    parser.add_argument("--baseline", action="store_true", help="first check that the tests pass without the mutation")
    arguments = parser.parse_args()
    mutations = load()
    if arguments.table:
        PAGE.write_text(with_table(PAGE.read_text(), mutations))
        return 0
    chosen = [each for each in mutations if not arguments.names or each.name.startswith(tuple(arguments.names))]
    if not chosen:
        raise SystemExit(f"no mutation is called {' or '.join(arguments.names)}")
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder)
        _copy(tree)
        missed = [
            each.name
            for each in chosen
            if (arguments.baseline and not passes_without(each, tree)) or not is_detected(each, tree)
        ]
    print(f"{len(chosen) - len(missed)} of {len(chosen)} detected" + (f"; not: {', '.join(missed)}" if missed else ""))
    return 1 if missed else 0


if __name__ == "__main__":
    raise SystemExit(main())
