"""What the browser is given: the files of `assets/`, read once, served under their names and nothing else.

There is no build step: what lies there is what runs. A name that is not in the folder does not exist, so no path can
lead elsewhere.
"""

from functools import cache
from importlib.resources import files
from typing import Final, NamedTuple

_TYPES: Final = {
    ".html": "text/html",
    ".css": "text/css",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
}


class Asset(NamedTuple):
    content_type: str
    body: bytes


@cache
def assets() -> dict[str, Asset]:
    """By file name. Some 60 kB altogether."""
    found: dict[str, Asset] = {}
    for file in files("mooring.web").joinpath("assets").iterdir():
        suffix = f".{file.name.rpartition('.')[2]}"
        if suffix in _TYPES:
            found[file.name] = Asset(_TYPES[suffix], file.read_bytes())
    return found
