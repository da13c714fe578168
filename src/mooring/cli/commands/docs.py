"""`mooring docs`: the pages that messages and help texts name, as installed with the package.

A wheel has them beside the code; a checkout has them in `docs/`.
"""

from pathlib import Path
from typing import Final

import click

import mooring
from mooring.cli.terminal import ObjectNotFound

_PACKAGE: Final = Path(mooring.__file__).parent
#: Where a wheel has the pages, and where a checkout does.
_FOLDERS: Final = (_PACKAGE / "docs", _PACKAGE.parents[1] / "docs")


def pages() -> dict[str, Path]:
    """By name; pages in folders below are `folder/page`."""
    folder = next((each for each in _FOLDERS if each.is_dir()), None)
    if folder is None:
        return {}
    return {str(file.relative_to(folder).with_suffix("")): file for file in sorted(folder.rglob("*.md"))}


@click.command()
@click.argument("page", default="")
def docs(page: str) -> None:
    """Print a page of the documentation, or without a name the list of pages.

    Exit codes: 0; 4 when the page does not exist.
    """
    known = pages()
    if not page:
        for name, file in known.items():
            heading = file.read_text(encoding="utf-8").partition("\n")[0].lstrip("# ")
            click.echo(f"{name.ljust(max(map(len, known)))}  {heading}")
        return
    found = known.get(page.removesuffix(".md").removeprefix("docs/"))
    if found is None:
        raise ObjectNotFound(f"Page {page!r} not found: `mooring docs` lists all pages.")
    click.echo(found.read_text(encoding="utf-8"), nl=False)
