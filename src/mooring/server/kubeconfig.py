"""The kubeconfig of the embedded cluster: what kubectl and every other client needs to come in."""

from base64 import b64encode
from typing import Any, Final

import yaml

#: Cluster, user and context are all called this; one cluster, one administrator.
NAME: Final = "mooring"


def kubeconfig(*, server: str, authority: bytes, token: str) -> dict[str, Any]:
    """`server` is the URL, `authority` the certificate (PEM) that clients check the server's against."""
    cluster = {"server": server, "certificate-authority-data": b64encode(authority).decode()}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": NAME, "cluster": cluster}],
        "users": [{"name": NAME, "user": {"token": token}}],
        "contexts": [{"name": NAME, "context": {"cluster": NAME, "user": NAME}}],
        "current-context": NAME,
    }


def kubeconfig_text(config: dict[str, Any]) -> str:
    """As a file holds it."""
    return yaml.dump(config, Dumper=yaml.CSafeDumper, sort_keys=False)
