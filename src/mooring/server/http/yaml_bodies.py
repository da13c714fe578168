"""One YAML document as the JSON value it stands for, with YAML's surprises taken out.

Dates and base-60 numbers stay the text that was written, a key given twice is an error, keys are text, and
aliases cannot blow a small document up into a large one. For request bodies; not for streams of documents.
"""

from collections.abc import Callable
from typing import Any, Final

import yaml

from mooring.api.yaml_depth import check_depth

#: Values a document may expand to: a body of the allowed size holds fewer, unless aliases multiply them.
MAX_VALUES: Final = 1_000_000

_TIMESTAMP: Final = "tag:yaml.org,2002:timestamp"
_INT: Final = "tag:yaml.org,2002:int"
_FLOAT: Final = "tag:yaml.org,2002:float"


class MalformedYaml(ValueError):
    """Not one YAML document that JSON could express; the text says why."""


class _Loader(yaml.CSafeLoader):
    """PyYAML's C loader, except that a key given twice is refused instead of settled in favour of the last."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        given = [key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
        if len(given) != len(set(given)):
            twice = next(key for key in given if given.count(key) > 1)
            raise yaml.constructor.ConstructorError(None, None, f'key "{twice}" is given twice', node.start_mark)
        return super().construct_mapping(node, deep=deep)


def _unless_base_60(construct: Callable[[Any, yaml.ScalarNode], Any]) -> Callable[[_Loader, yaml.ScalarNode], Any]:
    """`22:22` is text: nobody who writes it in a manifest means 1342."""
    return lambda loader, node: node.value if ":" in node.value else construct(loader, node)


_Loader.add_constructor(_TIMESTAMP, lambda _, node: node.value)
_Loader.add_constructor(_INT, _unless_base_60(yaml.CSafeLoader.construct_yaml_int))
_Loader.add_constructor(_FLOAT, _unless_base_60(yaml.CSafeLoader.construct_yaml_float))


def decode_yaml(raw: bytes) -> object:
    """Raises MalformedYaml."""
    try:
        check_depth(raw)
        value = yaml.load(raw, Loader=_Loader)
    except (yaml.YAMLError, ValueError) as error:
        raise MalformedYaml(" ".join(str(error).split())) from error
    _check_json(value)
    return value


def _check_json(value: object) -> None:
    """Walks the value as it would be written out, aliases repeated; a cycle ends at the bound too."""
    waiting: list[object] = [value]
    walked = 0
    while waiting:
        current = waiting.pop()
        walked += 1
        if walked > MAX_VALUES:
            raise MalformedYaml("aliases make the document too large")
        match current:
            case dict():
                if odd := [key for key in current if not isinstance(key, str)]:
                    raise MalformedYaml(f"key {odd[0]!r} is not text; quote it")
                waiting += current.values()
            case list():
                waiting += current
            case None | str() | int() | float():
                pass
            case _:
                raise MalformedYaml(f"a {type(current).__name__} has no form in JSON")
