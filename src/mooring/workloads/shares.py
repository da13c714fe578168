"""Numbers that may be given as shares: `2` or `25%` of something. Pure."""


def resolved(wanted: int | str | None, total: int, *, up: bool, default: int) -> int:
    """The number meant; a share is rounded `up` or down. The server has checked that it is one."""
    if wanted is None:
        return default
    if isinstance(wanted, int):
        return wanted
    percent = int(wanted.removesuffix("%"))
    return -(-total * percent // 100) if up else total * percent // 100
