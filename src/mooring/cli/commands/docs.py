"""`mooring docs`: the pages that messages and help texts name, and the examples, as installed with the package.

A wheel has them beside the code; a checkout has them in `docs/` and `examples/`.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import click

import mooring
from mooring.cli.terminal import ObjectNotFound

_PACKAGE: Final = Path(mooring.__file__).parent
#: Where a wheel has the folders, and where a checkout does.
_ROOTS: Final = (_PACKAGE, _PACKAGE.parents[1])


def pages() -> dict[str, Path]:
    """By name; pages in folders below are `folder/page`."""
    return {str(file.relative_to(folder).with_suffix("")): file for folder, file in _files("docs", "*.md")}


def examples() -> dict[str, Path]:
    """By path, which begins with `examples/`."""
    return {str(file.relative_to(folder.parent)): file for folder, file in _files("examples", "*.yaml")}


def _files(name: str, pattern: str) -> Iterator[tuple[Path, Path]]:
    """The folder and each file in it."""
    folder = next((root / name for root in _ROOTS if (root / name).is_dir()), None)
    if folder is not None:
        for file in sorted(folder.rglob(pattern)):
            yield folder, file


@click.command()
@click.argument(
    "page",
    default="",
    shell_complete=lambda _, __, unfinished: [each for each in pages() | examples() if each.startswith(unfinished)],
)
def docs(page: str) -> None:
    """Print a page of the documentation or an example, or without a name the list of both.

    To use an example: mooring docs examples/statefulset-local.yaml | kubectl apply -f -

    Exit codes: 0; 4 when the page does not exist.
    """
    known = pages() | examples()
    if not page:
        for name, file in known.items():
            heading = file.read_text(encoding="utf-8").partition("\n")[0].lstrip("# ")
            click.echo(f"{name.ljust(max(map(len, known)))}  {heading}")
        return
    found = known.get(page.removesuffix(".md").removeprefix("docs/"))
    if found is None:
        raise ObjectNotFound(f"Page {page!r} not found: `mooring docs` lists all pages and examples.")
    click.echo(found.read_text(encoding="utf-8"), nl=False)
