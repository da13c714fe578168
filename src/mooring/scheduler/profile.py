"""A profile: the plugins of one scheduler, in order, sorted by the points of the cycle they act at.

Sorted once, because asking a class which methods it has costs more than most plugins' answers.
"""

from collections.abc import Iterable

from mooring.scheduler.contract import Filter, Plugin, PreFilter, Reserve, Score


class Profile:
    """Immutable. The order of the plugins is the order they are asked in and reasons are reported in."""

    def __init__(self, plugins: Iterable[Plugin]) -> None:
        self.plugins = tuple(plugins)
        self.prefilters = tuple(one for one in self.plugins if isinstance(one, PreFilter))
        self.filters = tuple(one for one in self.plugins if isinstance(one, Filter))
        self.scorers = tuple(one for one in self.plugins if isinstance(one, Score))
        self.reservers = tuple(one for one in self.plugins if isinstance(one, Reserve))
