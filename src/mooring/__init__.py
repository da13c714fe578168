"""Mooring decides where a Kubernetes pod and its volumes go, together.

The package is layered; ARCHITECTURE.md has the picture and `.importlinter` enforces it. Importing this
module is free of side effects and of third-party imports, so that `mooring --help` stays fast.
"""

__version__ = "0.1.0"
