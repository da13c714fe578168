"""A release, and the packages that it needs, for tests that install it with the tools of its users."""

from pathlib import Path
from typing import Final

import pytest
from tools.release.__main__ import build

from support.conformance.wheels import wheelhouse

#: No test gets the archive from there: krew is given the file, or an address on loopback.
KREW_URL: Final = "https://example.invalid/plugin.tar.gz"


@pytest.fixture(scope="session")
def artifacts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a release, as `make release` builds it."""
    folder = tmp_path_factory.mktemp("artifacts")
    build(folder, krew_url=KREW_URL)
    return folder


@pytest.fixture(scope="session")
def wheels() -> Path:
    """The folder of the locked packages."""
    try:
        return wheelhouse()
    except LookupError as error:
        pytest.skip(f"the locked packages cannot be downloaded: {error}")
