"""Processor time and memory of this program's children, as Linux keeps them."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

_TICKS = os.sysconf("SC_CLK_TCK")


class Usage(NamedTuple):
    cpu_seconds: float
    peak_bytes: int


def usage(names: Mapping[int, str] | None = None) -> dict[str, Usage]:
    """What each child has used since it began, and this program as "bench". `names` by process id tell children apart
    that run the same command."""
    mine = os.getpid()
    found = {"bench": usage_of(mine)}
    for task in Path(f"/proc/{mine}/task").iterdir():
        for pid in (task / "children").read_text().split():
            name = (names or {}).get(int(pid)) or _name(Path(f"/proc/{pid}/cmdline").read_text())
            found[name] = usage_of(int(pid))
    return found


def spent(before: dict[str, Usage], after: dict[str, Usage]) -> dict[str, Usage]:
    """Processor time from one look to the next; the peak is the process's own, whenever it was."""
    begun = {name: before[name].cpu_seconds if name in before else 0.0 for name in after}
    return {name: Usage(now.cpu_seconds - begun[name], now.peak_bytes) for name, now in after.items()}


def _name(command: str) -> str:
    """`kube-apiserver`, or `mooring scheduler` however Python was asked to run it."""
    words = command.rstrip("\0").split("\0")
    if "mooring" in words:
        return f"mooring {words[words.index('mooring') + 1]}"
    return Path(words[0]).name


def usage_of(pid: int) -> Usage:
    # What stands in brackets may hold spaces; the times are the twelfth and thirteenth word after it.
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    status = Path(f"/proc/{pid}/status").read_text()
    peak = next((line.split()[1] for line in status.splitlines() if line.startswith("VmHWM:")), "0")
    return Usage((int(words[11]) + int(words[12])) / _TICKS, int(peak) * 1024)
