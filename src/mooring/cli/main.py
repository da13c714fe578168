"""The `mooring` command group. Subcommands are imported when used: `mooring --help` imports only click and `terminal`.

Each module of `commands` contains one command named like the module; `completion` is about the group itself.
"""

import errno
import importlib
from typing import Any, Final

import click
from click.shell_completion import CompletionItem, ShellComplete, get_completion_class

from mooring import __version__
from mooring.cli import terminal

#: Subcommand -> one line for the list of commands.
COMMANDS: Final = {
    "apiserver": "Run the API server alone.",
    "capacity": "Show the storage capacity that drivers report, by segment and storage class.",
    "completion": "Print a shell completion script.",
    "controller": "Run controllers against any Kubernetes cluster.",
    "coordinator": "Run the coordinator, which commits or rolls back the held volumes of a pod together.",
    "csi-hostpath": "Run a CSI driver that stores volumes on this machine.",
    "demo": "Show a stuck pod, its explanation and a rollback, on clusters of its own.",
    "doctor": "List what is wrong or risky with storage and scheduling, with evidence and fixes.",
    "docs": "Print a documentation page or an example.",
    "explain": "Explain the state of a pod, claim, volume or node, with remedies.",
    "extender": "Run a scheduler extender that makes volume decisions for kube-scheduler.",
    "import": "Convert manifests of the design drafts to today's API.",
    "nodeagent": "Run simulated nodes against any Kubernetes cluster.",
    "orphans": "List volumes that no node can reach, with the pods that wait for them and remedies.",
    "page": "Serve a live, read-only dashboard of a cluster's storage.",
    "provisioner": "Provision volumes through a CSI driver, for any Kubernetes cluster.",
    "reset": "Delete all objects and volumes of a stopped embedded cluster.",
    "scheduler": "Run the scheduler against any Kubernetes cluster.",
    "simulate": "Simulate changes of a cluster without touching it.",
    "timeline": "Show the history of a pod or claim, its volumes, holds and rollbacks.",
    "up": "Start an embedded cluster: API server, controllers and nodes in one process.",
}

PROGRAM: Final = "mooring"
#: Environment variable that makes click complete instead of run.
VARIABLE: Final = "_MOORING_COMPLETE"
#: Completions in the format of kubectl plugins.
KUBECTL: Final = "kubectl"
#: Cobra's directive ShellCompDirectiveNoFileComp.
NO_FILES: Final = ":4"

#: Where a command is not in the module of `commands` with its name: `import` is a keyword, and `demo` runs the others.
MODULES: Final = {"import": "commands.import_drafts", "demo": "demo"}

#: Former command -> command; accepted, not listed.
ALIASES: Final = {"story": "timeline"}


class LazyGroup(click.Group):
    """Lists the commands of the table; imports a module only to run its command or show its help."""

    def main(self, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401  # as click has it
        terminal.install()
        return super().main(*args, **kwargs)

    def invoke(self, ctx: click.Context) -> Any:  # noqa: ANN401
        try:
            return super().invoke(ctx)
        except OSError as error:
            # A path that cannot be read or written is the caller's error; anything else is a bug.
            if error.filename is None or error.errno == errno.EPIPE:
                raise
            raise click.ClickException(f"{error.filename}: {error.strerror}.") from error

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        name = ALIASES.get(cmd_name, cmd_name)
        if name not in COMMANDS:
            return None
        if name == completion.name:
            return completion
        module = MODULES.get(name, f"commands.{name.replace('-', '_')}")
        command = getattr(importlib.import_module(f"mooring.cli.{module}"), module.rpartition(".")[2])
        assert isinstance(command, click.Command)
        return command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        found = [CompletionItem(name, help=COMMANDS[name]) for name in COMMANDS if name.startswith(incomplete)]
        return found + click.Command.shell_complete(self, ctx, incomplete)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(sorted(COMMANDS.items()))


@click.command(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="mooring")
def main() -> None:
    """Schedules Kubernetes pods together with their volumes."""


@click.command(context_settings={"ignore_unknown_options": True})
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish", KUBECTL]))
@click.argument("words", nargs=-1, type=click.UNPROCESSED)
def completion(shell: str, words: tuple[str, ...]) -> None:
    """Print a completion script for bash, zsh or fish.

    \b
    bash   source <(mooring completion bash)
    zsh    source <(mooring completion zsh)
    fish   mooring completion fish | source

    `mooring completion kubectl` prints completions of the given words. An executable file kubectl_complete-mooring on
    the PATH with these two lines enables completion of `kubectl mooring` in every shell:

    \b
    #!/bin/sh
    exec mooring completion kubectl -- "$@"
    """
    if shell == KUBECTL:
        *before, unfinished = words or ("",)
        for item in ShellComplete(main, {}, PROGRAM, VARIABLE).get_completions(before, unfinished):
            click.echo(f"{item.value}\t{item.help}" if item.help else item.value)
        click.echo(NO_FILES)
    elif words:
        raise click.UsageError(f"The script for {shell} takes no words: leave out {' '.join(words)}.")
    else:
        script = get_completion_class(shell)
        assert script is not None, "click knows these"
        click.echo(script(main, {}, PROGRAM, VARIABLE).source())
