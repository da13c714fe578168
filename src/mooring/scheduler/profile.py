"""A profile: the plugins of one scheduler, in order, sorted by the points of the cycle they act at.

Sorted once, because asking a class which methods it has costs more than most plugins' answers. For the same reason
plugins that only look at volumes are not asked about pods that have none: such pods pay nothing for them.
"""

from collections.abc import Iterable, Mapping

from mooring.api.views.pod import Pod
from mooring.scheduler.contract import Filter, Plugin, PreFilter, Reserve, Score
from mooring.scheduler.plugins.default_preemption import DefaultPreemption


class Profile:
    """Immutable. The order of the plugins is the order they are asked in and reasons are reported in."""

    def __init__(self, plugins: Iterable[Plugin], *, weights: Mapping[str, int] | None = None) -> None:
        """`weights` are for the plugins whose scores shall count otherwise than by their own weight, by name."""
        self.plugins = tuple(plugins)
        self._weights = dict(weights or {})
        self.prefilters = tuple(one for one in self.plugins if isinstance(one, PreFilter))
        self.filters = tuple(one for one in self.plugins if isinstance(one, Filter))
        self.scorers = tuple(one for one in self.plugins if isinstance(one, Score))
        self.reservers = tuple(one for one in self.plugins if isinstance(one, Reserve))
        self.preemptor = next((one for one in self.plugins if isinstance(one, DefaultPreemption)), None)
        others = tuple(one for one in self.plugins if not getattr(one, "only_volumes", False))
        self._without_volumes = self if len(others) == len(self.plugins) else Profile(others, weights=weights)

    def concerning(self, pod: Pod) -> "Profile":
        """The plugins that could have something to say about a pod."""
        return self if pod.spec.volumes else self._without_volumes

    def weight(self, plugin: Score) -> int:
        """How much a plugin's scores count among the others'."""
        return self._weights.get(plugin.name, plugin.weight)

    def preceded_by(self, plugin: Plugin) -> "Profile":
        """The same with one more plugin, which is asked first."""
        return Profile((plugin, *self.plugins), weights=self._weights)
