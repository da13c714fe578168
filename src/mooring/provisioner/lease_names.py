"""The name of a driver's Lease, as csi-lib-utils spells it: instances of both must meet on one. Pure."""

import re


def lease_name(driver: str) -> str:
    name = re.sub(r"[^a-zA-Z0-9-]", "-", driver)
    return f"{name}X" if name.endswith("-") else name
