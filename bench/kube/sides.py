"""The measured and the shared processes: children that end with their context.

Neither side has a rate limit, and no measured process uses leader election.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.kube.report import KUBE
from support.conformance.components import HOST
from support.conformance.control_plane import ControlPlane
from support.conformance.process import Process, free_port

#: kube-controller-manager and kube-scheduler default to 20 and 50 requests a second.
UNLIMITED = ("--kube-api-qps=5000", "--kube-api-burst=10000")
BINDER = "persistentvolume-binder-controller"
STAND_IN = "standin-provisioner"
#: schedulerName of Mooring's scheduler; the other one keeps its usual name.
OUR_SCHEDULER = "mooring"


class Sides:
    """`profiles` is the folder for cProfile's files of our processes, None where they run as usual."""

    def __init__(self, kube: ControlPlane, *, profiles: Path | None = None) -> None:
        self._kube = kube
        self._profiles = profiles
        self._started = 0

    @contextmanager
    def scheduler(self, side: str, *options: str) -> Iterator[str]:
        """Start the scheduler; return its schedulerName."""
        if side == KUBE:
            with self._kube.scheduler(*UNLIMITED, *options):
                yield "default-scheduler"
        else:
            with self._ours("scheduler", "--scheduler-name", OUR_SCHEDULER, *options):
                yield OUR_SCHEDULER

    @contextmanager
    def coordinator(self, *options: str) -> Iterator[None]:
        """Elected, as its announcement is in the Lease."""
        with self._ours("coordinator", *options, elected=True):
            yield

    @contextmanager
    def binder(self, side: str) -> Iterator[None]:
        """The PV controller alone."""
        if side == KUBE:
            with self._kube.controllers(BINDER, options=UNLIMITED):
                yield
        else:
            with self._ours("controller", "--controllers", BINDER):
                yield

    @contextmanager
    def behind_both(self) -> Iterator[None]:
        """Mooring's PV controller, because it is faster, and the stand-in provisioner."""
        with self._ours("controller", "--controllers", f"{BINDER},{STAND_IN}"):
            yield

    @contextmanager
    def _ours(self, *command: str, elected: bool = False) -> Iterator[None]:
        program = [sys.executable, "-m"]
        if self._profiles is not None:
            self._started += 1
            program += ["bench.kube.profiled", str(self._profiles / f"{command[0]}-{self._started}.prof")]
        port = free_port()
        options = [
            "--kubeconfig",
            self._kube.kubeconfig,
            "--leader-elect",
            str(elected).lower(),
            "--log-level",
            "error",
        ]
        process = Process(
            [*program, "mooring", *command, "--http-port", str(port), *options],
            self._kube.kubeconfig.with_name(f"mooring-{command[0]}-{port}.log"),
        )
        try:
            process.wait_until_healthy(f"http://{HOST}:{port}/readyz", None)
            yield
            if not process.running:
                raise RuntimeError(f"mooring {command[0]} did not last\n{process.log_tail()}")
        finally:
            process.stop()
