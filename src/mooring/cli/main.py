"""The `mooring` command: a group whose subcommands are imported only when they are used.

`mooring --help` must stay instant, so this module imports nothing but click and the output streams; each subcommand's
module holds one command named like the module.
"""

import errno
import importlib
from typing import Any, Final

import click

from mooring import __version__
from mooring.cli import terminal

#: Subcommand -> (module, one line for the list of commands).
COMMANDS: Final = {
    "apiserver": ("mooring.cli.apiserver", "Run the API server alone."),
    "capacity": ("mooring.cli.capacity", "Show what room drivers report, where, for which class, and how old that is."),
    "completion": ("mooring.cli.completion", "Print what a shell needs to complete commands and flags."),
    "controller": ("mooring.cli.controller", "Run controllers against any Kubernetes."),
    "coordinator": ("mooring.cli.coordinator", "Give pods all their volumes on one node or none, on any Kubernetes."),
    "csi-hostpath": ("mooring.cli.csi_hostpath", "Run a CSI driver that keeps volumes on this machine."),
    "docs": ("mooring.cli.docs", "Print a page of the documentation."),
    "explain": ("mooring.cli.explain", "Say why a pod, a claim or a node is as it is, and what would help."),
    "extender": ("mooring.cli.extender", "Lend volume decisions to a stock kube-scheduler."),
    "import": ("mooring.cli.import_drafts", "Make manifests of the design drafts fit for today's API."),
    "nodeagent": ("mooring.cli.nodeagent", "Play nodes of any Kubernetes."),
    "orphans": ("mooring.cli.orphans", "Show volumes that no node can reach, who waits, and what can be done."),
    "page": ("mooring.cli.page", "Show a cluster's storage in the browser, live and for reading only."),
    "provisioner": ("mooring.cli.provisioner", "Make volumes through a CSI driver, beside any Kubernetes."),
    "scheduler": ("mooring.cli.scheduler", "Run the scheduler against any Kubernetes."),
    "simulate": ("mooring.cli.simulate", "Say what would happen to a cluster if, without touching any."),
    "story": ("mooring.cli.story", "Tell what happened to a pod or a claim, its volumes, holds and rollbacks."),
    "up": ("mooring.cli.up", "Start an embedded cluster: API server, controllers and nodes in one process."),
}


class LazyGroup(click.Group):
    """Lists commands from the table above and imports a module only to run it or to show its own help."""

    def main(self, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401  # as click has it
        terminal.install()
        return super().main(*args, **kwargs)

    def invoke(self, ctx: click.Context) -> Any:  # noqa: ANN401
        try:
            return super().invoke(ctx)
        except OSError as error:
            # A path that cannot be read or written is the caller's to mend; anything else is a fault of this program.
            if error.filename is None or error.errno == errno.EPIPE:
                raise
            raise click.ClickException(f"{error.filename}: {error.strerror}.") from error

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(COMMANDS[cmd_name][0])
        command = getattr(module, module.__name__.rpartition(".")[2])
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, COMMANDS[name][1]) for name in self.list_commands(ctx)])


@click.command(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="mooring")
def main() -> None:
    """Decides where a Kubernetes pod and its volumes go, together."""
