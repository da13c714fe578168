"""What others store, read or type: every name of Mooring that outlives a process or leaves it, in one document.

`python -m tools.public_surface` writes `tests/repository/golden_surface.json`, and a test beside that file compares.
Nothing here names a module, class or function of the package: strings come from the syntax trees of all its
modules, JSON keys from its msgspec structs, flags from the click commands behind the installed script. So modules may
move and identifiers may be renamed while the document stays as it is.
"""

import ast
import contextlib
import gc
import importlib
import json
import pkgutil
import re
import tomllib
import typing
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, Final, NamedTuple

import click
import msgspec
import yaml
from tools.generate_reference.metrics import metric_made

import mooring
from mooring.cli.terminal import MEANINGS
from mooring.control.feature_gates import BY_NAME

ROOT: Final = Path(__file__).parents[1]
GOLDEN: Final = ROOT / "tests" / "repository" / "golden_surface.json"
COMMAND: Final = "python -m tools.public_surface"

#: A part of a string that is only known when the program runs.
UNKNOWN: Final = "{}"
#: Topic -> what its strings look like, wherever in the package they stand.
PATTERNS: Final = {
    "annotations, labels, finalizers, taints, API versions": r"[a-z0-9{}.-]+\.[a-z]{2,}/[\w{}./^=:-]+",
    "drivers, provisioners, API groups": r"(?:[a-z0-9{}-]+\.)+(?:dev|io|com|org)",
    "names of objects, namespaces, controllers": r"(?=.*[a-z]{3})[a-z0-9{}]+(?:-[a-z0-9{}]+)+",
    "users, groups and roles": r"system:[a-z0-9:{}-]*",
    "kinds, conditions, reasons, phases, plugins": r"[A-Z][A-Za-z]*[a-z][A-Za-z]*",
    "files": r"[\w{}.-]*\.(?:db|json|sock|lock|pem|crt|key|ya?ml|new|log)",
    "HTTP paths and file paths": r"/(?=.*[a-z])[\w{}./-]*",
    "SQL": r"\s*(?:ALTER|CREATE|DELETE|DROP|INSERT|PRAGMA|SELECT|UPDATE) .*",
}
#: Keys of JSON documents that are written as dicts: objects, frames of the page, data of ConfigMaps.
_DOCUMENT_KEY: Final = re.compile(r"[a-z$][A-Za-z0-9-]*")
#: Calls whose strings are types.
_TYPE_CALLS: Final = frozenset({"cast", "TypeVar", "NewType", "ParamSpec", "NamedTuple", "TypedDict", "getattr"})


class Module(NamedTuple):
    loaded: ModuleType
    tree: ast.Module
    nodes: Sequence[ast.AST]


def surface() -> dict[str, Any]:
    gc.disable()  # Syntax trees are many small objects without a cycle: a third of the time.
    try:
        return _surface(list(_modules()))
    finally:
        gc.enable()


def _surface(modules: Sequence[Module]) -> dict[str, Any]:
    strings = {text for module in modules for text in _strings(module)} - {each.loaded.__name__ for each in modules}
    found: dict[str, Any] = {
        topic: sorted({" ".join(text.split()) for text in strings if re.fullmatch(pattern, text, re.DOTALL)})
        for topic, pattern in PATTERNS.items()
    }
    views, others = _json_documents(modules)
    return found | {
        "event reasons": sorted(_documented_reasons() & strings),
        "sequences matched, such as paths of requests": sorted({text for each in modules for text in _matched(each)}),
        "files and folders below others": sorted({text for each in modules for text in _joined_paths(each)}),
        "environment variables": sorted({name for each in modules for name in _environment(each)}),
        "metrics": sorted({text for each in modules for text in _metrics(each)}),
        "JSON documents written as dicts": sorted({keys for each in modules for keys in _dicts(each)}),
        "fields read of Kubernetes objects": views,
        "JSON documents written or read": others,
        "objects in deploy/": sorted(_deployed()),
        "commands": _commands(),
        "exit codes": {str(code.value): code.name for code in MEANINGS},
        "feature gates": {
            name: f"{gate.stage.value}, {str(gate.default).lower()}{', locked' if gate.locked else ''}"
            for name, gate in sorted(BY_NAME.items())
        },
    }


def dump(found: Mapping[str, Any]) -> str:
    return json.dumps(found, indent=1, ensure_ascii=False) + "\n"


def _modules() -> Iterator[Module]:
    names = [each.name for each in pkgutil.walk_packages(mooring.__path__, "mooring.")]
    for name in ["mooring", *(each for each in names if not each.endswith(("__main__", "_pb2")))]:
        loaded = importlib.import_module(name)
        assert loaded.__file__ is not None
        tree = ast.parse(Path(loaded.__file__).read_text())
        yield Module(loaded, tree, list(ast.walk(tree)))


# Strings


def _strings(module: Module) -> Iterator[str]:
    """Those that are values: no docstrings, no types, no lists of exported names."""
    todo: list[ast.AST] = [module.tree]
    while todo:
        node = todo.pop()
        text = _text(node, module.loaded)
        if text is not None:
            yield text
        else:
            todo += _values_below(node)


def _values_below(node: ast.AST) -> Iterator[ast.AST]:
    match node:
        case ast.Expr(value=ast.Constant()) | ast.Assign(targets=[ast.Name(id="__all__")]):
            return
        case ast.Call(func=ast.Name(id=name)) if name in _TYPE_CALLS:
            yield from (each for each in node.args if not isinstance(each, ast.Constant))
            return
    for field, value in ast.iter_fields(node):
        if field not in ("annotation", "returns", "type_params"):
            yield from (each for each in (value if isinstance(value, list) else [value]) if isinstance(each, ast.AST))


def _text(node: ast.AST | None, module: ModuleType) -> str | None:
    """The string an expression stands for, as far as constants tell; None where it is no string."""
    match node:
        case ast.Constant(value=str() as text):
            return text
        case ast.JoinedStr():
            return "".join(_text(part, module) or "" for part in node.values)
        case ast.FormattedValue():
            known = _constant(node.value, module)
            return UNKNOWN if known is None else str(known)
    return None


def _constant(node: ast.expr, module: ModuleType) -> str | int | None:
    """What a name in capitals stands for, the module's own or another's."""
    name = _name(node)
    if not name.isupper():
        return None
    owner: object = module
    if isinstance(node, ast.Attribute):
        if not isinstance(node.value, ast.Name):
            return None
        owner = getattr(module, node.value.id, None)
    value = getattr(owner, name, None)
    value = getattr(value, "value", value)
    return value if isinstance(value, str | int) else None


def _name(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def _known_text(node: ast.expr | None, module: ModuleType) -> str | None:
    """A string spelt there or as a constant."""
    if isinstance(node, ast.Name | ast.Attribute):
        value = _constant(node, module)
        return value if isinstance(value, str) else None
    return _text(node, module)


def _joined_paths(module: Module) -> Iterator[str]:
    for node in module.nodes:
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
            text = _known_text(node.right, module.loaded)
            if text is not None:
                yield text


def _environment(module: Module) -> Iterator[str]:
    """Variables looked up in an environment, and those click reads."""
    for node in module.nodes:
        match node:
            case ast.Subscript(value=base, slice=key) | ast.Compare(left=key, comparators=[base]):
                names = [key] if _name(base).endswith("environ") else []
            case ast.Call(func=ast.Attribute(value=base, attr="get"), args=[key, *_]):
                names = [key] if _name(base).endswith("environ") else []
            case ast.keyword(arg="envvar", value=key):
                names = list(key.elts) if isinstance(key, ast.Tuple | ast.List) else [key]
            case _:
                continue
        yield from (text for name in names if (text := _known_text(name, module.loaded)) is not None)


def _matched(module: Module) -> Iterator[str]:
    for node in module.nodes:
        if isinstance(node, ast.MatchSequence):
            parts = [each.value if isinstance(each, ast.MatchValue) else None for each in node.patterns]
            texts = [_known_text(each, module.loaded) for each in parts]
            if any(texts):
                yield "/".join(text or UNKNOWN for text in texts)


def _dicts(module: Module) -> Iterator[str]:
    """The keys of every dict whose keys could be a document's."""
    for node in module.nodes:
        if isinstance(node, ast.Dict):
            texts = [_known_text(key, module.loaded) for key in node.keys if key is not None]
            keys = sorted({text for text in texts if text is not None})
            if keys and all(_DOCUMENT_KEY.fullmatch(key) for key in keys):
                yield ", ".join(keys)


def _metrics(module: Module) -> Iterator[str]:
    for node in module.nodes:
        if isinstance(node, ast.Call) and (made := metric_made(node)) is not None:
            name, kind, _ = made
            named = (each.value for each in node.keywords if each.arg in ("labels", "labelnames"))
            given = next(iter([*node.args[2:3], *named]), None)
            labels = () if given is None else _evaluated(given, module.loaded)
            assert isinstance(labels, list | tuple), f"{name}: labels must be constants"
            yield f"{name}{{{','.join(labels)}}} {kind}"


def _documented_reasons() -> set[str]:
    """What the page of events lists; tests/docs sees to it that no reason is missing there."""
    page = (ROOT / "docs" / "reference" / "events.md").read_text()
    return {word for row in re.findall(r"^\| (`.*?) \|", page, re.MULTILINE) for word in re.findall(r"`(\w+)", row)}


# JSON documents


def _json_documents(modules: Iterable[Module]) -> tuple[list[str], list[str]]:
    """The keys of every struct that is JSON somewhere: views of Kubernetes objects, and all others."""
    kinds = {id(value): value for each in modules for value in vars(each.loaded).values() if hasattr(value, "plural")}
    views = _reachable(kind.view for kind in kinds.values() if isinstance(getattr(kind, "view", None), type))
    others = _reachable(root for each in modules for root in _roots(each))
    return sorted({_keys(each) for each in views}), sorted({_keys(each) for each in others - views})


def _roots(module: Module) -> Iterator[object]:
    """Structs that rename their fields, with all that derive from them, and what decoders are made for."""
    for node in module.nodes:
        match node:
            case ast.ClassDef(name=name) if any(each.arg == "rename" for each in node.keywords):
                yield from _with_subclasses(getattr(module.loaded, name))
            case ast.Call(func=ast.Attribute(attr="Decoder"), args=[kind]):
                yield _evaluated(kind, module.loaded)
            case ast.Call(func=ast.Attribute(value=ast.Name(id="msgspec"), attr="convert"), args=[_, kind]):
                yield _evaluated(kind, module.loaded)
            case ast.keyword(arg="type", value=kind):
                yield _evaluated(kind, module.loaded)


def _with_subclasses(found: type) -> Iterator[type]:
    yield found
    for each in found.__subclasses__():
        yield from _with_subclasses(each)


def _evaluated(node: ast.expr, module: ModuleType) -> object:
    with contextlib.suppress(Exception):  # A variable of a function: what it holds is found where it comes from.
        return eval(compile(ast.Expression(node), module.__name__, "eval"), vars(module))
    return None


def _reachable(roots: Iterable[object]) -> set[type[msgspec.Struct]]:
    found: set[type[msgspec.Struct]] = set()
    todo = list(roots)
    while todo:
        each = todo.pop()
        if isinstance(each, type) and issubclass(each, msgspec.Struct):
            if each not in found:
                found.add(each)
                todo += typing.get_type_hints(each).values()
        else:
            todo += typing.get_args(each)
    return found


def _keys(struct: type[msgspec.Struct]) -> str:
    config = struct.__struct_config__
    tag = [f"{config.tag_field}={config.tag}"] if config.tag_field else []
    return ", ".join([*tag, *sorted(struct.__struct_encode_fields__)])


# Manifests and commands


def _deployed() -> Iterator[str]:
    for file in (ROOT / "deploy").rglob("*.yaml"):
        for document in yaml.safe_load_all(file.read_text()):
            if document and "name" in document.get("metadata", {}):
                metadata = document["metadata"]
                yield f"{document['kind']} {'/'.join(filter(None, (metadata.get('namespace'), metadata['name'])))}"


def _commands() -> dict[str, dict[str, str]]:
    """Every command with its arguments and flags: what they take, and their defaults."""
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    module, _, name = scripts["mooring"].partition(":")
    command = getattr(importlib.import_module(module), name)
    return dict(sorted(_below(command, click.Context(command, info_name="mooring", **command.context_settings))))


def _below(command: click.Command, context: click.Context) -> Iterator[tuple[str, dict[str, str]]]:
    # Without --help, which click adds and caches under the names that the first caller's context gives it.
    options = command.params
    arguments = [each for each in options if isinstance(each, click.Argument)]
    names = {each: f"argument {number}" for number, each in enumerate(arguments, 1)}
    rows = {names.get(each) or "/".join([*each.opts, *each.secondary_opts]): _takes(each, context) for each in options}
    yield context.command_path, dict(sorted(rows.items()))
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            assert found is not None
            yield from _below(found, click.Context(found, info_name=name, parent=context))


def _takes(parameter: click.Parameter, context: click.Context) -> str:
    info = parameter.to_info_dict()
    choices = info["type"].get("choices")
    takes = "flag" if info.get("is_flag") else "|".join(choices) if choices else info["type"]["name"]
    words = [takes, *(word for word in ("required", "multiple", "hidden") if info.get(word))]
    if info["nargs"] != 1:
        words.append("any number" if info["nargs"] < 0 else f"{info['nargs']} values")
    default = parameter.get_default(context, call=False)
    if isinstance(default, str | int | float) and default != "" and default is not False:
        words.append(f"default {default}")
    return ", ".join(words)


if __name__ == "__main__":
    GOLDEN.write_text(dump(surface()))
