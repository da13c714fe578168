"""The software bill of materials of a release: a CycloneDX document of the locked packages with their hashes."""

import datetime as dt
import json
import re
import uuid
from collections.abc import Iterator
from typing import Any, Final

#: Start of a locked package: name, version, and perhaps an environment marker.
_PACKAGE: Final = re.compile(r"^([A-Za-z0-9_.-]+)==([^ ;\\]+)", re.MULTILINE)
_HASH: Final = re.compile(r"--hash=sha256:([0-9a-f]{64})")
#: Packages that are in the lock file to build the package, not to run it.
BUILD_ONLY: Final = frozenset({"editables", "hatchling"})


def bill_of_materials(lock: str, version: str, time: int) -> str:
    """JSON text, the same for the same lock file, version and time."""
    components = list(_components(lock))
    product = {"type": "application", "bom-ref": "mooring", "name": "mooring", "version": version}
    document = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_OID, f'mooring {version} {lock}')}",
        "version": 1,
        "metadata": {
            "timestamp": dt.datetime.fromtimestamp(time, dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "component": product | {"licenses": [{"license": {"id": "Apache-2.0"}}]},
        },
        "components": components,
        "dependencies": [{"ref": "mooring", "dependsOn": [each["bom-ref"] for each in components]}],
    }
    return json.dumps(document, indent=2) + "\n"


def _components(lock: str) -> Iterator[dict[str, Any]]:
    found = list(_PACKAGE.finditer(lock))
    for package, following in zip(found, [*found[1:], None], strict=True):
        name, version = package.groups()
        block = lock[package.start() : following.start() if following else len(lock)]
        reference = f"pkg:pypi/{name.lower().replace('_', '-')}@{version}"
        yield {
            "type": "library",
            "bom-ref": reference,
            "name": name,
            "version": version,
            "scope": "excluded" if name in BUILD_ONLY else "required",
            "purl": reference,
            # One per file that the lock allows: wheels of each platform, and the source.
            "externalReferences": [
                {
                    "type": "distribution",
                    "url": reference,
                    "hashes": [{"alg": "SHA-256", "content": each} for each in sorted(_HASH.findall(block))],
                }
            ],
        }
