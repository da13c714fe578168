"""What the server says it is: the answer of `/version`.

Clients decide by it whether they fit, so it names the Kubernetes release whose API is spoken, with Mooring as
the build suffix. Not the version of the package, which `mooring --version` prints.
"""

import platform
from typing import Final

import msgspec

#: The release the wire behaviour was compared with; kubectl warns when it is more than one minor away.
MAJOR: Final = "1"
MINOR: Final = "36"
GIT_VERSION: Final = "v1.36.4+mooring"


def version_document() -> bytes:
    """`version.Info`. Fields that describe a Go build are there, because clients decode them, and say nothing."""
    return msgspec.json.encode(
        {
            "major": MAJOR,
            "minor": MINOR,
            "gitVersion": GIT_VERSION,
            "gitCommit": "",
            "gitTreeState": "",
            "buildDate": "1970-01-01T00:00:00Z",
            "goVersion": "",
            "compiler": platform.python_implementation(),
            "platform": f"{platform.system().lower()}/{platform.machine()}",
        }
    )
