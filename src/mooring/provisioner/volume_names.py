"""What a volume is called: one name for the driver's volume and the PersistentVolume, from the claim's uid. Pure."""


def volume_name(claim_uid: str, *, prefix: str, uuid_length: int) -> str:
    """`pvc-<uid>`, or with so many of its digits without dashes; the same claim always gets the same name."""
    uid = claim_uid if uuid_length < 0 else claim_uid.replace("-", "")[:uuid_length]
    return f"{prefix}-{uid}"
