"""`python -m tools.generate_deploy` writes the RBAC objects of `deploy/`; `--check` says whether they are current."""

import argparse
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import yaml
from tools.generate_deploy.installation import PROCESSES

DEPLOY: Final = Path(__file__).parents[2] / "deploy"
HEADER: Final = "# Written by tools/generate_deploy from tools.generate_deploy.installation: change it there.\n"
#: The folder of each process.
FOLDERS: Final = {
    "scheduler": "components/scheduler",
    "coordinator": "components/coordinator",
    "controller": "components/controller",
    "recovery": "components/recovery",
    "preset-nodes": "components/preset-nodes",
    "extender": "components/extender",
    "provisioner": "components/example-driver",
    "drain": "drain",
}


class _Dumper(yaml.SafeDumper):
    """Lists of words on one line each, as in hand-written rules."""

    def represent_sequence(
        self, tag: str, sequence: Iterable[Any], flow_style: bool | None = None
    ) -> yaml.SequenceNode:
        items = list(sequence)
        words = all(isinstance(item, str) for item in items)
        return super().represent_sequence(tag, items, flow_style=words or flow_style)


def generate() -> dict[Path, str]:
    """Text of each file by its path."""
    return {
        DEPLOY / FOLDERS[name] / "rbac.yaml": HEADER
        + yaml.dump_all(process.manifests(), Dumper=_Dumper, sort_keys=False, width=120)
        for name, process in PROCESSES.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tools.generate_deploy", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; fail when a file would change")
    options = parser.parse_args()
    for path, text in generate().items():
        if not options.check:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        elif not path.exists() or path.read_text() != text:
            sys.exit(f"{path} is not what the code says: run python -m tools.generate_deploy")


if __name__ == "__main__":
    main()
