"""Clusters people have asked about in public, each as a dump with the explanation it must get.

A `.txt` beside a dump is a transcript: commands as people type them, less the dump, what they print, and the exit code.
"""

from pathlib import Path

import pytest
from click.testing import CliRunner

from mooring.cli.main import main

FIXTURES = Path(__file__).parent / "fixtures"
DUMPS = sorted(FIXTURES.glob("*.yaml"))


def current_transcript(dump: Path, transcript: str) -> str:
    """The transcript as it would be now."""
    parts: list[str] = []
    for line in transcript.splitlines():
        if line.startswith("$ mooring "):
            arguments = line.removeprefix("$ mooring ").split()
            done = CliRunner().invoke(main, [*arguments, "-f", str(dump)])
            assert done.stderr == ""
            parts.append(f"{line}\n{done.stdout}[{done.exit_code}]\n")
    return "\n".join(parts)


@pytest.mark.parametrize("dump", DUMPS, ids=lambda path: path.stem)
def test_a_cluster_is_explained_as_it_should_be(dump: Path) -> None:
    transcript = dump.with_suffix(".txt").read_text()
    assert current_transcript(dump, transcript) == transcript


def test_every_transcript_has_its_dump() -> None:
    assert {path.stem for path in FIXTURES.glob("*.txt")} == {dump.stem for dump in DUMPS}


def test_the_page_shows_what_is_really_printed() -> None:
    page = (Path(__file__).parents[2] / "docs" / "explain.md").read_text()
    shown = page.split("```console\n")[1].split("```")[0]
    transcript = (FIXTURES / "affinity-conflict.txt").read_text()
    assert shown == transcript.split("[1]\n")[0]
