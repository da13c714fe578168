"""Since when something has been so, as far as this process has seen. Pure, given the time."""


class Since:
    """Moments by key. A restart begins to count anew, which only ever waits longer."""

    def __init__(self) -> None:
        self._began: dict[str, float] = {}

    def seconds(self, key: str, holds: bool, now: float) -> float:
        """For how long it has held without a break; 0 where it does not."""
        if not holds:
            self._began.pop(key, None)
            return 0.0
        return now - self._began.setdefault(key, now)

    def forget(self, key: str) -> None:
        self._began.pop(key, None)
