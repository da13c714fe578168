"""Which page comes from where."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from tools.generate_reference.api import api_page
from tools.generate_reference.commands import commands_page
from tools.generate_reference.compatibility import compatibility_page
from tools.generate_reference.gates import gates_page
from tools.generate_reference.metrics import metrics_page
from tools.generate_reference.plugins import plugins_page
from tools.generate_reference.requirements import requirements_page

#: Path in the repository -> what writes it, given the repository's root.
PAGES: Final[Mapping[str, Callable[[Path], str]]] = {
    "docs/reference/api.md": api_page,
    "docs/reference/commands.md": lambda _: commands_page(),
    "docs/reference/compatibility.md": compatibility_page,
    "docs/reference/metrics.md": metrics_page,
    "docs/reference/feature-gates.md": lambda _: gates_page(),
    "docs/reference/plugins.md": lambda _: plugins_page(),
    "docs/requirements.md": requirements_page,
}
