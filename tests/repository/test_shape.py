"""Rules of the tree: sizes, names, docstrings, and files that must not be committed."""

import ast
import re
import subprocess
from importlib.metadata import requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
MODULES = sorted((ROOT / "src" / "mooring").rglob("*.py"))
TRACKED = [
    ROOT / line
    for line in subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout.splitlines()
    if (ROOT / line).is_file()
]


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", [p for p in TRACKED if p.suffix == ".py"], ids=name)
def test_modules_have_at_most_600_lines(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= 600


@pytest.mark.parametrize("path", MODULES, ids=name)
def test_every_module_has_a_docstring(path: Path) -> None:
    assert ast.get_docstring(ast.parse(path.read_text())), "the module has no docstring"


@pytest.mark.parametrize("path", MODULES, ids=name)
def test_module_names_are_specific(path: Path) -> None:
    assert path.stem not in {"utils", "util", "helpers", "helper", "common", "misc", "manager", "base"}


#: Calls that read the clock or randomness instead of an argument, and the modules that may.
FOREIGN = re.compile(
    r"\b(time\.(time|monotonic|sleep|perf_counter)"
    r"|random\.(random|choice|choices|randint|randrange|shuffle|sample|uniform|getrandbits)"
    r"|datetime\.(now|utcnow|today)"
    r"|asyncio\.sleep"
    r"|uuid\.uuid[14])\("
)
ALLOWED = {"src/mooring/clock.py", "src/mooring/whatif/virtual_time.py"}


@pytest.mark.parametrize("path", [m for m in MODULES if name(m) not in ALLOWED], ids=name)
def test_clock_and_randomness_are_arguments(path: Path) -> None:
    assert FOREIGN.findall(path.read_text()) == []


def test_every_folder_of_the_package_is_on_the_architecture_page() -> None:
    page = (ROOT / "ARCHITECTURE.md").read_text()
    folders = {p.name for p in (ROOT / "src" / "mooring").iterdir() if (p / "__init__.py").exists()}
    assert {folder for folder in folders if f"`{folder}/`" not in page} == set()


@pytest.mark.parametrize(
    "lock", ["requirements.lock", "requirements-dev.lock", "conformance/installers/requirements.lock"]
)
def test_locks_pin_by_hash_without_urls(lock: str) -> None:
    text = (ROOT / lock).read_text()
    assert not re.search(r"https?:", text)
    pins = re.findall(r"^[a-z0-9._-]+==\S+ \\$", text, re.MULTILINE)
    assert pins
    assert text.count("--hash=sha256:") >= len(pins)


def test_pins_have_the_extras_that_other_pins_ask_for() -> None:
    """Without them `pip install --require-hashes` refuses the lock in a fresh clone only."""
    pins = [
        Requirement(line.rstrip(" \\"))
        for line in (ROOT / "requirements-dev.lock").read_text().splitlines()
        if "==" in line
    ]
    pinned = {canonicalize_name(pin.name): pin.extras for pin in pins}
    missing = []
    for pin in pins:
        for needed in map(Requirement, requires(pin.name) or ()):
            selected = (needed.marker is None) or any(
                needed.marker.evaluate({"extra": extra}) for extra in ("", *pin.extras)
            )
            if selected and not needed.extras <= pinned[canonicalize_name(needed.name)]:
                missing.append(f"{pin.name} asks for {needed}")
    assert len(pinned) > 50
    assert missing == []
