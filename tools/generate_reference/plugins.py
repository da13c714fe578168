"""The scheduler's plugins, in the order they run, with their extension points."""

import inspect

from tools.generate_reference.tables import GENERATED, code, table

from mooring.scheduler.registry import DEFAULT

#: Points of a cycle, in their order.
_POINTS = ("prefilter", "filter", "postfilter", "prescore", "score", "reserve", "unreserve", "prebind")


def plugins_page() -> str:
    rows = []
    for plugin in DEFAULT.plugins:
        points = [point for point in _POINTS if callable(getattr(plugin, point, None))]
        weight = getattr(plugin, "weight", None)
        does = inspect.getdoc(type(plugin)) or inspect.getdoc(inspect.getmodule(type(plugin))) or ""
        text = does.partition("\n\n")[0].removeprefix(f"{plugin.name}: ")
        rows.append((code(plugin.name), ", ".join(points), "" if weight is None else str(weight), text))
    return (
        f"{GENERATED}\n# Scheduler plugins\n\n"
        "The plugins of `mooring scheduler` in the order in which they run. As in kube-scheduler, profiles in the file "
        "of `--config` enable and disable them and set their weights; "
        "[scheduler.md](../scheduler.md#configuration-file) has the arguments.\n\n"
        + table(["plugin", "extension points", "weight", "purpose"], rows)
    )
