"""What kube-scheduler has to be told so that it calls the extender: a KubeSchedulerConfiguration for each mode. Pure.

In bind mode there are two entries for one extender, because kube-scheduler has one time limit per entry: it must not
wait long for an answer about nodes, which holds up every pod, but it has to wait for volumes to be made.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from mooring.scheduler.configuration_document import API_VERSION, KIND
from mooring.scheduler.extender.judgement import WEIGHT
from mooring.scheduler.extender.settings import Mode

#: kube-scheduler's default for extenders; answers about nodes take milliseconds.
ANSWER_SECONDS: Final = 5.0
#: How much longer kube-scheduler waits for bind than we do, so that it hears our reason instead of giving up.
SLACK_SECONDS: Final = 10.0


@dataclass(frozen=True)
class ClientFiles:
    """Where kube-scheduler finds what it needs for mutual TLS."""

    authority: str
    certificate: str
    key: str


def kube_configuration(
    mode: Mode, url: str, names: Sequence[str], *, bind_timeout: float, files: ClientFiles | None = None
) -> dict[str, Any]:
    """The document; `files` where the extender is behind TLS."""
    asked: dict[str, Any] = {
        "urlPrefix": url,
        "filterVerb": "filter",
        "prioritizeVerb": "prioritize",
        "preemptVerb": "preempt",
        "weight": WEIGHT,
        "nodeCacheCapable": True,
        # Without us, VolumeBinding still keeps pods where their volumes are; without VolumeBinding, nobody would.
        "ignorable": mode is Mode.FILTER,
        "httpTimeout": _seconds(ANSWER_SECONDS),
    }
    extenders = [asked | _tls(files)]
    document: dict[str, Any] = {"apiVersion": API_VERSION, "kind": KIND}
    profiles: list[dict[str, Any]] = [{"schedulerName": name} for name in names]
    if mode is Mode.BIND:
        for profile in profiles:
            profile["plugins"] = {"multiPoint": {"disabled": [{"name": "VolumeBinding"}]}}
        # Otherwise large clusters have us judge a sample of their nodes, which may be one without volumes.
        document["percentageOfNodesToScore"] = 100
        binding = {
            "urlPrefix": url,
            "bindVerb": "bind",
            "nodeCacheCapable": True,
            "ignorable": False,
            "httpTimeout": _seconds(bind_timeout + SLACK_SECONDS),
        }
        extenders.append(binding | _tls(files))
    return document | {"profiles": profiles, "extenders": extenders}


def _tls(files: ClientFiles | None) -> dict[str, Any]:
    if files is None:
        return {}
    return {
        "enableHTTPS": True,
        "tlsConfig": {"caFile": files.authority, "certFile": files.certificate, "keyFile": files.key},
    }


def _seconds(amount: float) -> str:
    return f"{math.ceil(amount)}s"
