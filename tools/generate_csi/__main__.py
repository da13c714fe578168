"""`python -m tools.generate_csi` writes the CSI stubs; `--check` says whether they are up to date."""

import argparse
import sys
import tempfile
from importlib.resources import files
from pathlib import Path
from typing import Final

from grpc_tools import protoc

SOURCES: Final = Path(__file__).parents[2] / "src"
#: Below the sources; protobuf knows the file by this path, which nobody else's csi.proto has.
WIRE: Final = Path("mooring", "csi", "wire")
#: Each stub and what goes before it: generated code keeps its own format, and the generator leaves out the type
#: arguments of a message's fields that are given as mappings. The services need no stub, they are in the descriptor.
STUBS: Final = {
    "csi_pb2.py": "# ruff: noqa\n# fmt: off\n",
    "csi_pb2.pyi": '# ruff: noqa\n# fmt: off\n# mypy: disable-error-code="misc,type-arg"\n',
}


def generate() -> dict[str, str]:
    """Text of each stub by file name."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        well_known = files("grpc_tools") / "_proto"
        imports = [f"-I{SOURCES}", f"-I{well_known}"]
        if protoc.main(["", *imports, f"--python_out={folder}", f"--pyi_out={folder}", str(WIRE / "csi.proto")]) != 0:
            sys.exit("protoc could not read csi.proto: see above")
        return {stub: header + (folder / WIRE / stub).read_text() for stub, header in STUBS.items()}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tools.generate_csi", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; fail when a stub would change")
    options = parser.parse_args()
    for name, text in generate().items():
        path = SOURCES / WIRE / name
        if not options.check:
            path.write_text(text)
        elif not path.exists() or path.read_text() != text:
            sys.exit(f"{name} is not what csi.proto says: run python -m tools.generate_csi")


if __name__ == "__main__":
    main()
