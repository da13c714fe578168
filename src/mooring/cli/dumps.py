"""Files of Kubernetes objects as plain documents: YAML of one or many documents, JSON, folders, standard input.

What `kubectl get -o yaml|json` prints and people save. Says of everything it cannot read which file and why, in one
sentence; what the documents mean is the caller's business.
"""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from mooring.api import json_documents, yaml_documents
from mooring.api.json_documents import MalformedJson
from mooring.api.yaml_documents import MalformedYaml

#: Standard input, in the place of a file.
STDIN: Final = "-"
#: What a folder is searched for.
SUFFIXES: Final = (".yaml", ".yml", ".json")


class UnreadableDump(Exception):
    """A file that cannot be read as documents; the text begins with its name."""


def documents(sources: Sequence[str]) -> Iterator[tuple[str, object]]:
    """Every document of the sources, with the name of its file. Raises UnreadableDump."""
    for name, raw in contents(sources):
        yield from parsed(name, raw)


def contents(sources: Sequence[str]) -> Iterator[tuple[str, bytes]]:
    """Every file of the sources as it is, with its name. Raises UnreadableDump."""
    for source in sources:
        if source == STDIN:
            yield "standard input", _standard_input()
            continue
        for path in _files(Path(source)):
            try:
                yield str(path), path.read_bytes()
            except OSError as error:
                raise UnreadableDump(f"{path}: {error.strerror}") from error


def _standard_input() -> bytes:
    return sys.stdin.buffer.read()


def _files(path: Path) -> Sequence[Path]:
    if not path.is_dir():
        return [path]
    try:
        found = sorted(file for file in path.iterdir() if file.suffix in SUFFIXES and file.is_file())
    except OSError as error:
        raise UnreadableDump(f"{path}: {error.strerror}") from error
    if not found:
        raise UnreadableDump(f"{path}: the folder holds no {', '.join(SUFFIXES)} files")
    return found


def parsed(name: str, raw: bytes) -> Iterator[tuple[str, object]]:
    """The documents of one file. Raises UnreadableDump."""
    if raw.lstrip()[:1] == b"{":
        # JSON reads a hundred times faster as such than as the YAML it is too.
        try:
            yield name, json_documents.decode(raw)
            return
        except MalformedJson as error:
            if name.endswith(".json"):
                raise UnreadableDump(f"{name}: not JSON: {error}") from error
    try:
        found = list(yaml_documents.documents(raw))
    except MalformedYaml as error:
        raise UnreadableDump(f"{name}: not YAML: {error}") from error
    for document in found:
        # An empty document is what a separator too many leaves behind.
        if document is not None:
            yield name, document
