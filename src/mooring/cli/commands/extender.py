"""`mooring extender`, and the KubeSchedulerConfiguration for it."""

import math
import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, Unpack

import click
import yaml

from mooring.cli import options
from mooring.cli.process import ComponentRuntime, ProcessFailed, ProcessSettings, run_process
from mooring.cli.runtime import configure_logging, run_event_loop
from mooring.cli.terminal import InvalidInput
from mooring.clock import SystemClock
from mooring.cluster.extender_server import (
    ExtenderCredentials,
    ExtenderServer,
    ExtenderServerSettings,
    InvalidExtenderCredentials,
)
from mooring.control.component import Component, ComponentGroup
from mooring.scheduler.configuration import API_VERSION, KIND
from mooring.scheduler.extender.component import Extender
from mooring.scheduler.extender.evaluator import WEIGHT
from mooring.scheduler.extender.protocol import ExtenderSettings, Mode
from mooring.server.http.listener import CannotListen
from mooring.volumes.scoring import CapacityPolicy

#: In logs and user agents.
NAME: Final = "mooring-extender"
#: As others of the control plane know it.
PART: Final = "extender"
#: For probes and metrics.
PORT: Final = 10263
#: For kube-scheduler.
EXTENDER_PORT: Final = 10264
#: Addresses to listen on, but none to call.
EVERYWHERE: Final = ("0.0.0.0", "::")


@click.command()
@options.choice_option(
    "--mode",
    ("filter", "bind"),
    "filter: filter and score nodes, kube-scheduler binds. bind: bind the volumes and then the pod too, with "
    "kube-scheduler's VolumeBinding turned off.",
)
@options.text_option(
    "--extender-address",
    "ADDRESS",
    "Address of the extender endpoint. An address other than loopback requires --client-ca-file.",
    default=options.LOOPBACK,
)
@options.port_option("--extender-port", EXTENDER_PORT, "Port of the extender endpoint")
@click.option(
    "--tls-cert-file",
    type=options.FILE,
    metavar="FILE",
    help="PEM certificate of the extender endpoint; without a certificate it serves plain HTTP.",
)
@click.option("--tls-private-key-file", type=options.FILE, metavar="FILE", help="PEM private key of --tls-cert-file.")
@click.option(
    "--client-ca-file",
    type=options.FILE,
    metavar="FILE",
    help="Accept only clients with a certificate of this CA (mutual TLS); required for addresses other than loopback.",
)
@click.option(
    "--client-name",
    multiple=True,
    metavar="NAME",
    help="Accept only client certificates with this common name; repeatable.  [default: any of --client-ca-file]",
)
@options.duration_option("--bind-timeout", "10m", "How long a bind call waits for volumes.")
@options.choice_option(
    "--capacity-policy",
    ("Spread", "Pack"),
    "Whether to prefer nodes where most or least storage capacity remains free.",
)
@click.option(
    "--scheduler-name",
    multiple=True,
    metavar="NAME",
    help="kube-scheduler profile that calls the extender, for --print-scheduler-config and --idle-warning-after; "
    "repeatable.  [default: default-scheduler]",
)
@options.duration_option(
    "--idle-warning-after",
    "5m",
    "Log a warning after this long without extender calls while pods were scheduled.",
    former="--called-within",
)
@click.option(
    "--unready-when-idle",
    cls=options.RenamedOption,
    former="--ready-only-when-called",
    is_flag=True,
    help="Fail /readyz while the warning of --idle-warning-after applies.",
)
@click.option(
    "--print-scheduler-config", is_flag=True, help="Print the KubeSchedulerConfiguration for these flags and exit."
)
@options.text_option(
    "--extender-url",
    "URL",
    "URL at which kube-scheduler reaches the extender, for --print-scheduler-config.  "
    "[default: from --extender-address and --extender-port]",
)
@options.hold_namespace_option
@options.process_options(port=PORT, elects=False)
def extender(
    mode: str,
    extender_address: str,
    extender_port: int,
    tls_cert_file: Path | None,
    tls_private_key_file: Path | None,
    client_ca_file: Path | None,
    client_name: tuple[str, ...],
    bind_timeout: float,
    capacity_policy: str,
    scheduler_name: tuple[str, ...],
    idle_warning_after: float,
    unready_when_idle: bool,
    print_scheduler_config: bool,
    extender_url: str,
    hold_namespace: str,
    **flags: Unpack[options.ProcessFlags],
) -> None:
    """Serve volume decisions to kube-scheduler as a scheduler extender, until SIGTERM or Ctrl-C.

    --print-scheduler-config prints the configuration for kube-scheduler. All instances are active; `mooring docs
    extender` describes several instances, and the limits compared to mooring scheduler.

    Exit codes: 0 when told to stop; 1 when the API server or a port cannot be used; 2 when flags, certificates or
    kubeconfig are wrong.
    """
    if "" in scheduler_name:
        raise InvalidInput("--scheduler-name must not be empty.")
    if not bind_timeout or not idle_warning_after:
        raise InvalidInput("--bind-timeout and --idle-warning-after must be greater than 0.")
    settings = ExtenderSettings(
        Mode(mode),
        frozenset(scheduler_name) or ExtenderSettings.scheduler_names,
        bind_timeout,
        idle_warning_after,
        unready_when_idle,
        hold_namespace,
        CapacityPolicy(capacity_policy),
    )
    credentials = _credentials(tls_cert_file, tls_private_key_file, client_ca_file, client_name)
    server = ExtenderServerSettings(extender_address, extender_port, credentials)
    try:
        server.check()
        if print_scheduler_config:
            names, url, tls = sorted(settings.scheduler_names), extender_url or _url(server), credentials is not None
            document = kube_configuration(settings.mode, url, names, bind_timeout=bind_timeout, tls=tls)
            click.echo(yaml.dump(document, Dumper=yaml.CSafeDumper, sort_keys=False), nl=False)
            return
        # All instances are active; their ComponentInfo is in the namespace of the other components.
        process = replace(options.settings_of({**flags, "leader_elect": False}, name=NAME), namespace=hold_namespace)
        configure_logging(flags["log_level"])
        run_event_loop(_run(process, settings, server))
    except InvalidExtenderCredentials as error:
        raise InvalidInput(str(error)) from error


def _credentials(
    certificate: Path | None, key: Path | None, authority: Path | None, names: tuple[str, ...]
) -> ExtenderCredentials | None:
    if (certificate is None) != (key is None):
        raise InvalidInput("--tls-cert-file and --tls-private-key-file require each other.")
    if names and authority is None:
        raise InvalidInput("--client-name needs --client-ca-file.")
    if certificate is None or key is None:
        if authority is not None:
            raise InvalidInput("--client-ca-file needs --tls-cert-file and --tls-private-key-file.")
        return None
    return ExtenderCredentials(certificate, key, authority, frozenset(names))


def _url(server: ExtenderServerSettings) -> str:
    if server.host in EVERYWHERE or not server.port:
        raise InvalidInput("--extender-url is required with a wildcard --extender-address or --extender-port 0.")
    host = f"[{server.host}]" if ":" in server.host else server.host
    return f"{'http' if server.credentials is None else 'https'}://{host}:{server.port}/"


async def _run(process: ProcessSettings, settings: ExtenderSettings, server_settings: ExtenderServerSettings) -> None:
    server = ExtenderServer(server_settings, SystemClock(), random.SystemRandom())
    try:
        listener = await server.open()
    except CannotListen as error:
        raise ProcessFailed(str(error)) from error

    def build(runtime: ComponentRuntime) -> Component:
        component = Extender(runtime.context(), settings, registry=runtime.metrics.registry)
        server.set_handler(component.call)
        return ComponentGroup(component.name, [component, server])

    greeting = (
        f"makes volume decisions of {process.access.server} for kube-scheduler\n"
        f"  kube-scheduler is answered at {listener.url} in mode {settings.mode.value}"
    )
    try:
        await run_process(process, build, greeting=greeting, parts=[PART])
    finally:
        await listener.close()


#: kube-scheduler's default for extenders; answers about nodes take milliseconds.
ANSWER_SECONDS: Final = 5.0
#: How much longer kube-scheduler waits for bind than we do, so that it hears our reason instead of giving up.
SLACK_SECONDS: Final = 10.0


def kube_configuration(
    mode: Mode, url: str, names: Sequence[str], *, bind_timeout: float, tls: bool = False
) -> dict[str, Any]:
    """The document; with `tls`, kube-scheduler authenticates to the extender."""
    asked: dict[str, Any] = {
        "urlPrefix": url,
        "filterVerb": "filter",
        "prioritizeVerb": "prioritize",
        "preemptVerb": "preempt",
        "weight": WEIGHT,
        "nodeCacheCapable": True,
        # Without us, VolumeBinding still keeps pods where their volumes are; without VolumeBinding, no plugin would.
        "ignorable": mode is Mode.FILTER,
        "httpTimeout": _seconds(ANSWER_SECONDS),
    }
    extenders = [asked]
    document: dict[str, Any] = {"apiVersion": API_VERSION, "kind": KIND}
    profiles: list[dict[str, Any]] = [{"schedulerName": name} for name in names]
    if mode is Mode.BIND:
        for profile in profiles:
            profile["plugins"] = {"multiPoint": {"disabled": [{"name": "VolumeBinding"}]}}
        # Otherwise large clusters have us judge a sample of their nodes, which may be one without volumes.
        document["percentageOfNodesToScore"] = 100
        timeout = _seconds(bind_timeout + SLACK_SECONDS)
        extenders.append(
            {"urlPrefix": url, "bindVerb": "bind", "nodeCacheCapable": True, "ignorable": False, "httpTimeout": timeout}
        )
    secured = [extender | (_mutual_tls() if tls else {}) for extender in extenders]
    return document | {"profiles": profiles, "extenders": secured}


def _mutual_tls() -> dict[str, Any]:
    """With paths on kube-scheduler's machine, to be edited by the user."""
    folder = "/etc/kubernetes/extender"
    files = {"caFile": f"{folder}/server-ca.crt", "certFile": f"{folder}/client.crt", "keyFile": f"{folder}/client.key"}
    return {"enableHTTPS": True, "tlsConfig": files}


def _seconds(amount: float) -> str:
    return f"{math.ceil(amount)}s"
