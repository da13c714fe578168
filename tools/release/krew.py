"""The kubectl plugin for krew: an archive with a launcher, and the manifest that krew reads.

Mooring needs Python and packages with compiled parts, so the archive does not contain it: the launcher runs the
installed `mooring` of the same version, or has uv or pipx fetch that version at first use.
"""

import textwrap
from typing import Final

LAUNCHER: Final = """\
#!/bin/sh
# kubectl mooring: runs mooring {version}, which is installed, or fetched by uv or pipx at first use.
if command -v mooring >/dev/null 2>&1 && [ "$(mooring --version 2>/dev/null)" = "mooring, version {version}" ]; then
    exec mooring "$@"
elif command -v uvx >/dev/null 2>&1; then
    exec uvx --from "mooring=={version}" mooring "$@"
elif command -v pipx >/dev/null 2>&1; then
    exec pipx run --spec "mooring=={version}" mooring "$@"
fi
echo "kubectl mooring needs Python 3.11 and mooring {version}: install uv or pipx," \\
    "or run pip install mooring=={version}" >&2
exit 3
"""

MANIFEST: Final = """\
apiVersion: krew.googlecontainertools.github.com/v1alpha2
kind: Plugin
metadata:
  name: mooring
spec:
  version: v{version}
  shortDescription: Explain why pods with volumes are pending
  description: |
    Names the node, the volume and the value that keep a pod pending, and what
    would help; predicts the effect of changes; lists capacity and volumes that
    no node can reach. Reads the cluster and changes nothing.
  caveats: |
    Needs Python 3.11 or newer, and uv, pipx or an installed mooring {version}.
  platforms:
{platforms}"""

PLATFORM: Final = """\
- selector:
    matchLabels:
      os: {os}
  uri: {url}
  sha256: {digest}
  files:
  - from: kubectl-mooring
    to: .
  - from: LICENSE
    to: .
  bin: kubectl-mooring
"""


def archive_files(version: str, license_text: bytes) -> dict[str, bytes]:
    """Files of the plugin's archive by name."""
    return {"kubectl-mooring": LAUNCHER.format(version=version).encode(), "LICENSE": license_text}


def manifest(version: str, url: str, digest: str) -> str:
    """The plugin manifest, for the systems that have a POSIX shell."""
    platforms = "".join(PLATFORM.format(os=os, url=url, digest=digest) for os in ("linux", "darwin"))
    return MANIFEST.format(version=version, platforms=textwrap.indent(platforms, "  "))
