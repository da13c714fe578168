"""`mooring demo`: a stuck pod, its explanation and a rollback, shown in a terminal on clusters of its own.

Every command is printed as a user would type it, run by `sh`, and followed by its real output. The clusters run in
memory and end with the command; nothing of the user's is read or changed.
"""

import asyncio
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Final, NamedTuple

import click

from mooring.cli import terminal
from mooring.clock import SystemClock
from mooring.testing import StartFailed, TestCluster, cluster

#: Between two commands, for a reader.
READING_SECONDS: Final = 2.0
#: For an output that takes time, and between two attempts.
PATIENT_SECONDS: Final = 120.0
RETRY_SECONDS: Final = 0.2

_PODS: Final = "kubectl get pods -o custom-columns=POD:.metadata.name,STATUS:.status.phase,NODE:.spec.nodeName"


class DemoStep(NamedTuple):
    #: Printed as a comment; one line each.
    comment: tuple[str, ...]
    command: str
    #: The command is repeated until its output has this text; only the last output is shown.
    until: str = ""
    #: 1 is `mooring explain`'s for something that is stuck.
    exit_codes: tuple[int, ...] = (0,)


class DemoScene(NamedTuple):
    title: tuple[str, ...]
    #: Of `mooring up`.
    options: tuple[str, ...]
    steps: tuple[DemoStep, ...]


SCENES: Final = (
    DemoScene(
        ("A cluster with three nodes, in memory: what `mooring up --in-memory` starts.",),
        (),
        (
            DemoStep(
                ("A StatefulSet with three pods, each with a local volume.",),
                "mooring docs examples/statefulset-local.yaml | kubectl apply -f -",
            ),
            DemoStep((), "kubectl rollout status statefulset/db --timeout=60s"),
            DemoStep(("Each pod runs where its volume is.",), _PODS),
            DemoStep(("A fourth pod does not fit.",), "kubectl scale statefulset/db --replicas=4"),
            DemoStep(("Why, and what would help?",), "mooring explain pod/db-3", "would not fit", (1,)),
            DemoStep(("Try that, without touching the cluster.",), "mooring simulate --add-node node-1=1"),
        ),
    ),
    DemoScene(
        (
            "A second cluster, whose scheduler ignores storage capacity:",
            "`mooring up --in-memory --feature-gates=CSIStorageCapacity=false`.",
        ),
        ("--feature-gates=CSIStorageCapacity=false",),
        (
            DemoStep(("Only node-1 is left, with 50Gi free.",), "kubectl cordon node-2 node-3"),
            DemoStep(
                ("A pod needs two volumes of 40Gi.",),
                "mooring docs examples/rollback/half-a-pod.yaml | kubectl apply -f -",
            ),
            DemoStep(
                (
                    "One volume is provisioned, the other is not. On a stock cluster the pod stays tied to node-1.",
                    "Mooring rolls the first volume back: no pod has used it.",
                ),
                "kubectl get events --field-selector=reason=ProvisioningRolledBack,involvedObject.kind=Pod"
                " -o custom-columns=REASON:.reason,MESSAGE:.message",
                "rolled back",
            ),
            DemoStep(("The pod is free to go elsewhere.",), "kubectl uncordon node-2 node-3"),
            DemoStep((), "kubectl wait --for=condition=Ready pod/pair --timeout=100s"),
            DemoStep(("It runs, with both volumes on one node.",), _PODS),
        ),
    ),
)
NEXT: Final = (
    "Start a cluster of your own with `mooring up`; continue with `mooring docs tutorials/a-pending-pod`.",
    "On your own clusters, `mooring explain` and `mooring doctor` work with read-only rights.",
)


def commands() -> Iterator[str]:
    """All commands of the demo, in order."""
    return (step.command for scene in SCENES for step in scene.steps)


@click.command()
@click.option(
    "--pause",
    type=click.FloatRange(0, 60),
    metavar="SECONDS",
    help=f"Time between two commands.  [default: {READING_SECONDS:g} in a terminal, otherwise 0]",
)
def demo(pause: float | None) -> None:
    """Show a stuck pod, its explanation and a rollback, in a terminal, on clusters that end with the command.

    Takes about half a minute and needs kubectl. Every command is printed and run as you would type it, with its real
    output. No other cluster is read or changed, and nothing stays on disk.

    Exit codes: 0; 1 when a command does not do what it should; 2 when kubectl is missing.
    """
    if shutil.which("kubectl") is None:
        raise terminal.InvalidInput("The demo runs kubectl, which is not on the PATH: install kubectl 1.30 or newer.")
    reading = (READING_SECONDS if sys.stdout.isatty() else 0.0) if pause is None else pause
    before = signal.signal(signal.SIGTERM, _end)
    try:
        for scene in SCENES:
            _comment(scene.title)
            with cluster(options=scene.options) as started:
                for step in scene.steps:
                    _show(step, _environment(started), reading)
    except StartFailed as error:
        raise click.ClickException(str(error)) from error
    finally:
        signal.signal(signal.SIGTERM, before)
    _comment(NEXT)


def _end(received: int, _: FrameType | None) -> None:
    """Ends with the clusters: an exception unwinds the blocks that stop them."""
    sys.exit(128 + received)


def _environment(started: TestCluster) -> dict[str, str]:
    """So that `mooring` is this one, also where it is not on the PATH."""
    own = str(Path(sys.executable).parent)
    return {**started.environment, "PATH": os.pathsep.join([own, os.environ.get("PATH", "")])}


def _comment(lines: tuple[str, ...]) -> None:
    click.echo()
    for line in lines:
        terminal.styled(f"# {line}", fg="cyan")


def _show(step: DemoStep, environment: dict[str, str], reading: float) -> None:
    if step.comment:
        _comment(step.comment)
    _sleep(reading)
    terminal.styled(f"$ {step.command}", bold=True)
    sys.stdout.flush()
    click.echo(_output(step, environment), nl=False)
    sys.stdout.flush()


def _output(step: DemoStep, environment: dict[str, str]) -> str:
    """Raises click.ClickException."""
    clock = SystemClock()
    deadline = clock.monotonic() + PATIENT_SECONDS
    while True:
        done = subprocess.run(["sh", "-c", step.command], env=environment, capture_output=True, text=True, check=False)
        complete = step.until in done.stdout
        if complete and done.returncode in step.exit_codes:
            return done.stdout
        if not step.until or clock.monotonic() > deadline:
            told = f"{done.stdout}{done.stderr}"
            raise click.ClickException(f"Exit code {done.returncode} was not expected of: {step.command}\n{told}")
        _sleep(RETRY_SECONDS)


def _sleep(seconds: float) -> None:
    if seconds:
        asyncio.run(SystemClock().sleep(seconds))
