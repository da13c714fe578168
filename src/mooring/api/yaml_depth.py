"""How deep YAML may be nested, checked before anything that recurses reads it.

For everybody who is given YAML: request bodies and files.
"""

from typing import Final

import yaml

#: Kubernetes' types nest about twenty deep. PyYAML's C loader recurses, and beyond some thousands ends the process.
MAX_DEPTH: Final = 200


class TooDeep(ValueError):
    """Values are nested deeper than anything of Kubernetes."""

    def __init__(self) -> None:
        super().__init__(f"values are nested more than {MAX_DEPTH} deep")


def check_depth(raw: bytes) -> None:
    """Raises TooDeep and yaml.YAMLError. Parsing alone does not recurse, so this is safe for any input."""
    depth = 0
    for event in yaml.parse(raw, Loader=yaml.CSafeLoader):
        match event:
            case yaml.CollectionStartEvent():
                depth += 1
            case yaml.CollectionEndEvent():
                depth -= 1
            case _:
                pass
        if depth > MAX_DEPTH:
            raise TooDeep
