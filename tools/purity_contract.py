"""Import contract "pure": every module is pure except the shells that the contract lists.

A pure module imports no library that does I/O and awaits nothing. Protocols with `async def` signatures are pure: they
describe I/O and do none. `.importlinter` names the shells; a shell that has become pure must leave the list.
"""

import ast
from pathlib import Path

from grimp import ImportGraph
from importlinter import Contract, ContractCheck, fields, output

_WAITS = (ast.Await, ast.AsyncFor, ast.AsyncWith)


class PureContract(Contract):
    """Fails for a pure module that imports I/O or awaits, and for a listed shell that does neither."""

    root = fields.StringField()
    forbidden_modules = fields.ListField(subfield=fields.StringField())
    shells = fields.ListField(subfield=fields.StringField())

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:  # the signature is import-linter's
        root, forbidden, shells = str(self.root), set(self.forbidden_modules), set(self.shells)  # type: ignore[call-overload]
        reasons: dict[str, list[str]] = {}
        for module in sorted(m for m in graph.modules if m == root or m.startswith(f"{root}.")):
            found = [f"imports {name}" for name in sorted(graph.find_modules_directly_imported_by(module) & forbidden)]
            if _awaits(module):
                found.append("awaits")
            if found:
                reasons[module] = found
        return ContractCheck(
            kept=set(reasons) == shells,
            metadata={
                "impure": {module: found for module, found in reasons.items() if module not in shells},
                "pure": sorted(shells - set(reasons)),
            },
        )

    def render_broken_contract(self, check: ContractCheck) -> None:
        for module, found in check.metadata["impure"].items():
            output.print_error(f"{module} is not a listed shell, but {' and '.join(found)}")
        for module in check.metadata["pure"]:
            output.print_error(
                f"{module} is listed as a shell, but is pure (or does not exist): remove it from the list"
            )


def _awaits(module: str) -> bool:
    path = Path("src", *module.split("."))
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    return any(isinstance(node, _WAITS) for node in ast.walk(ast.parse(file.read_text())))
