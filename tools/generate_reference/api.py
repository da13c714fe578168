"""The public Python API: which names are public, and their reference page from signatures and docstrings.

`PUBLIC` is the one list of what is public. Everything else in the package is private and may change in any release.
The page is written from the source text, so that annotations and defaults read as they are written.
"""

import ast
import inspect
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

from tools.generate_reference.tables import GENERATED


class PublicModule(NamedTuple):
    name: str
    #: Empty for the names of the module's `__all__`.
    names: tuple[str, ...] = ()


class PublicPart(NamedTuple):
    title: str
    about: str
    modules: tuple[PublicModule, ...]


PUBLIC: Final = (
    PublicPart(
        "Clusters for tests",
        "See [testing.md](../testing.md). The pytest fixtures `mooring_cluster` and `mooring_session_cluster` are "
        "public, too.",
        (PublicModule("mooring.testing"),),
    ),
    PublicPart(
        "Volume library",
        "See [volumes-library.md](../volumes-library.md).",
        (PublicModule("mooring.volumes"), PublicModule("mooring.volumes.group")),
    ),
    PublicPart(
        "Explain",
        "What `mooring explain` prints, as values. List objects, add them to `ClusterObjects`, and ask. The structs "
        "have the fields of `-o json`.",
        (
            PublicModule("mooring.explain.cluster_objects", ("ClusterObjects", "MalformedObject", "EXPLAINED_KINDS")),
            PublicModule("mooring.explain.cluster_view", ("ClusterView",)),
            PublicModule("mooring.explain.pod", ("explain_pod", "explain_in", "explain_claim", "overview", "Line")),
            PublicModule("mooring.explain.volume", ("explain_volume",)),
            PublicModule("mooring.explain.node", ("explain_node",)),
            PublicModule("mooring.explain.group", ("explain_group",)),
            PublicModule("mooring.explain.workload", ("explain_workload", "WORKLOAD_KINDS", "EXPLAINED_WORKLOADS")),
            PublicModule(
                "mooring.explain.results",
                (
                    "PodVerdict",
                    "NodeVerdict",
                    "Reason",
                    "ClaimVerdict",
                    "Candidate",
                    "CapacityReport",
                    "Remedy",
                    "ClaimReport",
                    "VolumeReport",
                    "NodeReport",
                    "GroupReport",
                    "WorkloadReport",
                ),
            ),
        ),
    ),
    PublicPart(
        "Simulate",
        "What `mooring simulate` does: an inventory of objects, a question about changes, and the result of a "
        "simulated run. `SimulationResult` has the fields of `-o json`, `Scaling` is one "
        "`--scale`. `answer` starts an event loop of its own.",
        (
            PublicModule("mooring.whatif.inventory", ("Inventory", "BadQuestion")),
            PublicModule("mooring.whatif.additions", ("Addition",)),
            PublicModule("mooring.whatif.question", ("WhatIfQuestion", "Scaling")),
            PublicModule("mooring.whatif.run", ("answer",)),
            PublicModule("mooring.whatif.results", ("SimulationResult", "Placement", "PendingPod")),
        ),
    ),
    PublicPart(
        "Client",
        "An asynchronous client of any Kubernetes API server, with informers. Kinds are rows of `mooring.api.kinds`; "
        "objects are frozen, typed views (`mooring.api.views`) of the fields that Mooring reads.",
        (
            PublicModule("mooring.client.kubeconfig", ("load", "from_files", "from_pod", "Choice", "KubeconfigError")),
            PublicModule(
                "mooring.client.contract",
                ("Client", "ObjectList", "WatchEvent", "WatchEventType", "Deletion", "Unreachable"),
            ),
            PublicModule("mooring.client.http", ("HttpClient",)),
            PublicModule("mooring.client.informer", ("Informer",)),
            PublicModule("mooring.api.kinds", ("Kind", "KINDS", "BY_KIND")),
            PublicModule(
                "mooring.api.errors", ("ApiError", "NotFound", "Conflict", "AlreadyExists", "Forbidden", "Expired")
            ),
        ),
    ),
)

#: Of a signature on one line.
MAX_COLUMNS: Final = 90

PROMISE: Final = """The names on this page are public. All other modules and names are private, also without an
underscore. [releases.md](../releases.md#deprecation) says how long public names stay. Texts for readers, such as
verdicts and remedies, may change in any release: programs compare `state`, `code` and `ok`.
"""


class Definition(NamedTuple):
    """A public name: where it is defined, and its node there."""

    name: str
    module: str
    node: ast.stmt


def definitions(module: PublicModule, root: Path) -> Iterator[Definition]:
    """Raises LookupError for a name that does not exist."""
    names = module.names or _exported(module.name, root)
    for name in names:
        yield _definition(name, module.name, root)


def api_page(root: Path) -> str:
    parts = [f"{GENERATED}\n# Python API\n", PROMISE]
    for part in PUBLIC:
        parts.append(f"## {part.title}\n\n{part.about}\n")
        for module in part.modules:
            parts.append(f"### {module.name}\n")
            parts += (_section(each, root) for each in definitions(module, root))
    return "\n".join(parts).rstrip() + "\n"


def _section(found: Definition, root: Path) -> str:
    match found.node:
        case ast.ClassDef():
            return _class_section(found, found.node, root)
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            return f"#### {found.name}\n\n```python\n{_folded(_signature(found.node))}\n```\n\n{_text(found.node)}"
        case _:
            said = " ".join(_comment_above(_lines(found.module, root), found.node.lineno))
            return f"#### {found.name}\n\n```python\n{_shortened(ast.unparse(found.node))}\n```\n\n{_sentence(said)}"


def _class_section(found: Definition, node: ast.ClassDef, root: Path) -> str:
    bases = [ast.unparse(base) for base in node.bases]
    heads = [f"class {found.name}({', '.join(bases)})" if bases else f"class {found.name}"]
    lines = _lines(found.module, root)
    rows, methods = [], []
    for each in node.body:
        match each:
            case ast.AnnAssign(target=ast.Name(id=name)) if not name.startswith("_"):
                said = " ".join(_comment_above(lines, each.lineno))
                default = f" = {_shortened(ast.unparse(each.value))}" if each.value is not None else ""
                field = f"{name}: {ast.unparse(each.annotation)}{default}"
                rows.append(f"- `{field}`{f': {said}' if said else ''}")
            case ast.Assign(targets=[ast.Name(id=name)]) if name.isupper():
                rows.append(f"- `{ast.unparse(each)}`")
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) if not name.startswith("_") or _takes(
                each
            ):
                methods.append(f"- `{_signature(each)}`{_tail(each)}")
    parts = [f"#### {found.name}\n\n```python\n{heads[0]}\n```\n", _text(node)]
    if rows:
        parts.append("\n".join(rows) + "\n")
    if methods:
        parts.append("\n".join(methods) + "\n")
    return "\n".join(part for part in parts if part)


def _takes(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """A constructor with arguments."""
    return node.name == "__init__" and len(node.args.args) + len(node.args.kwonlyargs) > 1


def _tail(node: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    text = ast.get_docstring(node)
    return f"  \n  {' '.join(text.split())}" if text else ""


def _signature(node: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    """On one line, without `self`; properties as attributes."""
    decorators = [ast.unparse(each) for each in node.decorator_list]
    result = "" if node.returns is None else f" -> {ast.unparse(node.returns)}"
    if any(each.endswith("property") for each in decorators):
        return f"{node.name}{result.replace(' -> ', ': ')}"
    arguments = ast.unparse(node.args).removeprefix("self, ").removeprefix("self")
    prefix = "async " if isinstance(node, ast.AsyncFunctionDef) else ""
    managed = "with " if "contextmanager" in decorators else ""
    if managed:
        result = result.replace("Iterator[", "").removesuffix("]").replace(" -> ", " as ")
    return f"{prefix}{managed}{node.name}({arguments.removeprefix('*, ') if arguments == '*' else arguments}){result}"


def _folded(signature: str) -> str:
    """With an argument a line where one line is too long."""
    if len(signature) <= MAX_COLUMNS:
        return signature
    start, _, rest = signature.partition("(")
    lines, depth, line = [f"{start}("], 1, ""
    for place, character in enumerate(rest):
        depth += (character in "([{") - (character in ")]}")
        if depth == 0:
            return "\n".join([*lines, f"    {line.strip()},", rest[place:]])
        line += character
        if character == "," and depth == 1:
            lines.append(f"    {line.strip()}")
            line = ""
    return signature


def _text(node: ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    text = ast.get_docstring(node)
    return f"{inspect.cleandoc(text)}\n" if text else ""


def _sentence(said: str) -> str:
    return f"{said}\n" if said else ""


def _shortened(text: str) -> str:
    return text if len(text) <= 100 else f"{text[:97]}..."


def _comment_above(lines: Sequence[str], line: int) -> Iterator[str]:
    """The `#:` lines above a line, counted from 1."""
    first = line - 1
    while first and lines[first - 1].strip().startswith("#:"):
        first -= 1
    return (each.strip().removeprefix("#:").strip() for each in lines[first : line - 1])


def _definition(name: str, module: str, root: Path) -> Definition:
    for node in _tree(module, root).body:
        match node:
            case ast.ClassDef(name=found) | ast.FunctionDef(name=found) | ast.AsyncFunctionDef(name=found):
                if found == name:
                    return Definition(name, module, node)
            case ast.AnnAssign(target=ast.Name(id=found)) if found == name:
                return Definition(name, module, node)
            case ast.Assign(targets=[ast.Name(id=found)]) if found == name:
                return Definition(name, module, node)
            case ast.ImportFrom(module=str() as source) if any(alias.name == name for alias in node.names):
                return _definition(name, source, root)
    raise LookupError(f"{module} has no {name}")


def _exported(module: str, root: Path) -> list[str]:
    for node in _tree(module, root).body:
        match node:
            case ast.Assign(targets=[ast.Name(id="__all__")], value=value):
                return sorted(ast.literal_eval(value), key=str.lower)
    raise LookupError(f"{module} has no __all__")


@cache
def _source(module: str, root: Path) -> str:
    path = root / "src" / Path(*module.split("."))
    return (path / "__init__.py" if path.is_dir() else path.with_suffix(".py")).read_text()


def _lines(module: str, root: Path) -> list[str]:
    return _source(module, root).splitlines()


@cache
def _tree(module: str, root: Path) -> ast.Module:
    return ast.parse(_source(module, root))
