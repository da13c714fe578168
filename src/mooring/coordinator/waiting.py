"""Since when something has been so, as far as this process has seen. Pure, given the time."""


class Since:
    """Moments by subject and key. A restart begins to count anew, which only ever waits longer."""

    def __init__(self) -> None:
        self._began: dict[str, dict[str, float]] = {}

    def seconds(self, subject: str, key: str = "", *, begins: bool, ends: bool, now: float) -> float:
        """How long ago it began. What has begun goes on until it ends, whether or not it begins again meanwhile."""
        moments = self._began.setdefault(subject, {})
        if ends:
            moments.pop(key, None)
            return 0.0
        if begins:
            moments.setdefault(key, now)
        return now - moments.get(key, now)

    def forget(self, subject: str) -> None:
        self._began.pop(subject, None)
