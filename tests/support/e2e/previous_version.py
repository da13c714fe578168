"""Sources of the previous version, out of the history of the repository.

The previous version is the last one whose standbys do not announce themselves: instances of this one cannot know more
of it than that its leader announces the feature gates it has.
"""

import subprocess
import tarfile
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[3]
#: The line that began this version, and its file.
_ADDED: Final = "instance.mooring.dev/"
_FILE: Final = "src/mooring/control/component_info.py"


def previous_sources(folder: Path) -> Path:
    """Extract them below `folder`, for PYTHONPATH. Skips the test without history, as in a shallow clone."""
    try:
        added = _git("log", "--format=%H", f"-S{_ADDED}", "--", _FILE).split()[-1]
        commit = _git("rev-parse", "--verify", f"{added}^").strip()
        archive = folder / "previous.tar"
        _git("archive", "--output", str(archive), commit, "src")
    except (subprocess.CalledProcessError, FileNotFoundError, IndexError) as error:
        pytest.skip(f"the history of the repository, with the previous version, is not available: {error}")
    with tarfile.open(archive) as content:
        content.extractall(folder / "previous", filter="data")
    return folder / "previous" / "src"


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout
