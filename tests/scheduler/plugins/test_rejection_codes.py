"""Every filter plugin says by a code why it rejects nodes, so that no reader of decisions has to compare texts."""

import ast
import inspect

import pytest

from mooring.scheduler.framework.interface import Filter, RejectionCode
from mooring.scheduler.plugins.volume_binding import CODES
from mooring.scheduler.registry import DEFAULT
from mooring.volumes.state import ConflictReason


@pytest.mark.parametrize("plugin", DEFAULT.filters, ids=lambda plugin: plugin.name)
def test_filter_plugin_gives_a_code_with_each_rejection(plugin: Filter) -> None:
    made = [
        call
        for call in ast.walk(ast.parse(inspect.getsource(inspect.getmodule(plugin))))  # type: ignore[arg-type]
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "NodeRejection"
    ]
    assert made
    for call in made:
        code = call.args[2]
        assert isinstance(code, ast.Attribute | ast.Subscript), f"line {call.lineno}"
        assert ast.unparse(code).startswith(("RejectionCode.", "CODES[")), f"line {call.lineno}"


def test_each_code_belongs_to_one_reason() -> None:
    assert set(CODES) == set(ConflictReason)
    assert len(set(CODES.values())) == len(CODES)
    assert len({code.value for code in RejectionCode}) == len(RejectionCode)
