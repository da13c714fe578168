"""docs/csi-hostpath.md says what the command can do."""

import re
from pathlib import Path

import click

from mooring.cli.commands.csi_hostpath import csi_hostpath

PAGE = (Path(__file__).parents[2] / "docs" / "csi-hostpath.md").read_text()


def test_every_option_is_on_the_page_and_no_other() -> None:
    options = {parameter.opts[0] for parameter in csi_hostpath.params if isinstance(parameter, click.Option)}
    assert set(re.findall(r"^\| `(--[\w-]+)`", PAGE, re.MULTILINE)) == options
