"""`python -m tools.generate_stubs` writes the stubs of CSI and etcd; `--check` says whether they are up to date."""

import argparse
import re
import sys
import tempfile
from importlib.resources import files
from pathlib import Path
from typing import Final

from grpc_tools import protoc

SOURCES: Final = Path(__file__).parents[2] / "src"
#: Below the sources; protobuf knows the files by these paths, which no other package's csi.proto has.
PROTOS: Final = (
    Path("mooring", "csi", "wire", "csi.proto"),
    Path("mooring", "store", "etcd", "wire", "etcd.proto"),
)
#: How each stub's name ends and what goes before it: generated code keeps its own format, and the generator leaves out
#: the type arguments of a message's fields that are given as mappings. The services need no stub, they are in the
#: descriptor.
STUBS: Final = {
    "_pb2.py": "# ruff: noqa\n# fmt: off\n",
    "_pb2.pyi": '# ruff: noqa\n# fmt: off\n# mypy: disable-error-code="misc,type-arg"\n',
}


def generate(proto: Path) -> dict[Path, str]:
    """Text of each stub by its path below the sources."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        well_known = files("grpc_tools") / "_proto"
        imports = [f"-I{SOURCES}", f"-I{well_known}"]
        if protoc.main(["", *imports, f"--python_out={folder}", f"--pyi_out={folder}", str(proto)]) != 0:
            sys.exit(f"protoc could not read {proto.name}: see above")
        stubs = {proto.with_name(proto.stem + ending): header for ending, header in STUBS.items()}
        return {stub: header + _without_offsets((folder / stub).read_text()) for stub, header in stubs.items()}


def _without_offsets(stub: str) -> str:
    """Without the branch for protobuf's pure-Python descriptors, which repeats options and offsets that are in the
    serialized file, and which they read from there too."""
    return re.sub(r"^if not _descriptor\._USE_C_DESCRIPTORS:\n(?:  .*\n)+", "", stub, flags=re.MULTILINE)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tools.generate_stubs", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; fail when a stub would change")
    options = parser.parse_args()
    for proto in PROTOS:
        for stub, text in generate(proto).items():
            path = SOURCES / stub
            if not options.check:
                path.write_text(text)
            elif not path.exists() or path.read_text() != text:
                sys.exit(f"{stub.name} is not what {proto.name} says: run python -m tools.generate_stubs")


if __name__ == "__main__":
    main()
