"""`python -m tools.generate_fields` writes the field table; `--check` says whether it is up to date."""

import argparse
import sys
import tempfile
from pathlib import Path

from tools.generate_fields.modules import fetch
from tools.generate_fields.protos import read_messages
from tools.generate_fields.rows import Sources, kinds_of, render, rows_for
from tools.generate_fields.structs import read_package

#: The newest patch release of the Kubernetes version Mooring targets.
VERSION = "v0.37.1"
TABLE = Path(__file__).parents[2] / "src" / "mooring" / "api" / "schema" / "table.json"

#: Packages of k8s.io/api whose kinds the table holds: all of them, or only those named.
PACKAGES: dict[str, tuple[str, ...]] = {
    "apps/v1": (),
    "authentication/v1": (),
    "authorization/v1": (),
    "autoscaling/v1": (),
    "batch/v1": (),
    "certificates/v1": (),
    "coordination/v1": (),
    "core/v1": (),
    "discovery/v1": (),
    "events/v1": (),
    "policy/v1": (),
    "policy/v1beta1": ("Eviction",),  # older clients still evict with it
    "rbac/v1": (),
    "resource/v1": (),
    "scheduling/v1": (),
    "scheduling/v1alpha3": ("PodGroup", "PodGroupList", "Workload", "WorkloadList"),
    "scheduling/v1beta1": ("PodGroup", "PodGroupList", "Workload", "WorkloadList"),
    "storage/v1": (),
    "storagemigration/v1": (),
}
#: Kinds of meta/v1 that every group version has (`DeleteOptions` arrives as `apps/v1`, `v1`, ...).
EVERYWHERE = ("CreateOptions", "DeleteOptions", "PatchOptions", "UpdateOptions")
#: Kinds of meta/v1 that live in the core group.
IN_CORE = ("Status",)

META = "k8s.io.apimachinery.pkg.apis.meta.v1"


def read(api: Path, machinery: Path, packages: dict[str, tuple[str, ...]]) -> Sources:
    directories = {"k8s.io.api." + name.replace("/", "."): api / name for name in packages}
    directories[META] = machinery / "pkg" / "apis" / "meta" / "v1"
    return Sources(
        messages={
            name: fields
            for directory in directories.values()
            for name, fields in read_messages(directory / "generated.proto").items()
        },
        packages={name: read_package(directory) for name, directory in directories.items()},
    )


def generate(sources: Sources, packages: dict[str, tuple[str, ...]]) -> str:
    """The text of the table."""
    kinds: dict[str, dict[str, str]] = {"*": {kind: f"meta/v1.{kind}" for kind in EVERYWHERE}}
    roots = [f"{META}.{kind}" for kind in (*EVERYWHERE, *IN_CORE)]
    for name, chosen in packages.items():
        proto_package = "k8s.io.api." + name.replace("/", ".")
        package = sources.packages[proto_package]
        version = name.partition("/")[2]
        api_version = f"{package.group}/{version}" if package.group else version
        names = chosen or kinds_of(package)
        kinds[api_version] = {kind: f"{name}.{kind}" for kind in names}
        roots += [f"{proto_package}.{kind}" for kind in names]
    kinds["v1"] |= {kind: f"meta/v1.{kind}" for kind in IN_CORE}
    return render(VERSION, kinds, rows_for(sources, roots))


def main() -> int:
    parser = argparse.ArgumentParser(prog="generate_fields", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; fail when the table is stale")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        api = fetch("k8s.io/api", VERSION, Path(scratch))
        machinery = fetch("k8s.io/apimachinery", VERSION, Path(scratch))
        sources = read(api, machinery, PACKAGES)
        table = generate(sources, PACKAGES)
    for remark in sources.remarks:
        print(remark, file=sys.stderr)
    if not options.check:
        TABLE.write_text(table)
        print(f"wrote {len(table)} bytes to {TABLE.name}")
    elif TABLE.read_text() != table:
        print(f"{TABLE.name} is stale: run `make fields`", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
