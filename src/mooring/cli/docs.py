"""`mooring docs`: the pages that messages and help texts name, as installed with the package.

A wheel has them beside the code; a checkout has them in `docs/`.
"""

from pathlib import Path
from typing import Final

import click

import mooring
from mooring.cli.exit_codes import ExitCode

_PACKAGE: Final = Path(mooring.__file__).parent
#: Where a wheel has the pages, and where a checkout does.
_FOLDERS: Final = (_PACKAGE / "docs", _PACKAGE.parents[1] / "docs")


def pages() -> dict[str, Path]:
    """By name; pages in folders below are `folder/page`."""
    folder = next((each for each in _FOLDERS if each.is_dir()), None)
    if folder is None:
        return {}
    return {str(file.relative_to(folder).with_suffix("")): file for file in sorted(folder.rglob("*.md"))}


class MissingPage(click.ClickException):
    """There is no page of that name: one sentence."""

    exit_code = ExitCode.NOT_FOUND


@click.command(short_help="Print a page of the documentation.")
@click.argument("page", default="")
def docs(page: str) -> None:
    """Print a page of the documentation, or without a name the list of pages.

    Exit codes: 0; 4 when there is no such page.
    """
    known = pages()
    if not page:
        for name, file in known.items():
            heading = file.read_text(encoding="utf-8").partition("\n")[0].lstrip("# ")
            click.echo(f"{name.ljust(max(map(len, known)))}  {heading}")
        return
    found = known.get(page.removesuffix(".md").removeprefix("docs/"))
    if found is None:
        raise MissingPage(f"There is no page {page!r}: `mooring docs` lists them.")
    click.echo(found.read_text(encoding="utf-8"), nl=False)
