"""The flags about etcd, with kube-apiserver's names and meanings."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict, TypeVar

import click

if TYPE_CHECKING:
    from mooring.store.etcd.settings import EtcdSettings

Command = TypeVar("Command", bound=Callable[..., object])

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


class EtcdFlags(TypedDict):
    """As click hands them over."""

    etcd_servers: str
    etcd_cafile: Path | None
    etcd_certfile: Path | None
    etcd_keyfile: Path | None
    etcd_prefix: str
    etcd_compaction_interval: str


def etcd_flags(command: Command) -> Command:
    """Adds them to a command, which takes them as `**etcd: Unpack[EtcdFlags]`."""
    for option in reversed(
        [
            click.option(
                "--etcd-servers",
                default="",
                metavar="URL,...",
                help="Keep the objects in etcd, at http://HOST:PORT or https://HOST:PORT, instead of the data folder; "
                "several API servers can share them.",
            ),
            click.option(
                "--etcd-cafile", type=_FILE, metavar="FILE", help="The authority that etcd's certificate is of."
            ),
            click.option("--etcd-certfile", type=_FILE, metavar="FILE", help="The certificate to show to etcd."),
            click.option("--etcd-keyfile", type=_FILE, metavar="FILE", help="The key of that certificate."),
            click.option(
                "--etcd-prefix",
                default="/mooring",
                show_default=True,
                metavar="PREFIX",
                help="What all keys in etcd begin with; kube-apiserver's is another, so one etcd can serve both.",
            ),
            click.option(
                "--etcd-compaction-interval",
                default="5m0s",
                show_default=True,
                metavar="DURATION",
                help="How often etcd is told to forget what is older than that; 0 leaves it to others.",
            ),
        ]
    ):
        command = option(command)
    return command


def etcd_asked_for(flags: EtcdFlags) -> "EtcdSettings | None":
    """None where the flags do not speak of etcd. Raises click.UsageError."""
    if not flags["etcd_servers"]:
        if flags["etcd_cafile"] or flags["etcd_certfile"] or flags["etcd_keyfile"]:
            raise click.UsageError("Certificates for etcd say nothing without --etcd-servers.")
        return None
    from mooring.api.go_durations import DurationError, seconds
    from mooring.store.etcd.settings import BadSettings, etcd_settings

    try:
        compaction = seconds(flags["etcd_compaction_interval"])
    except DurationError as error:
        raise click.BadParameter(str(error), param_hint="--etcd-compaction-interval") from error
    try:
        return etcd_settings(
            flags["etcd_servers"],
            authority=flags["etcd_cafile"],
            certificate=flags["etcd_certfile"],
            key=flags["etcd_keyfile"],
            prefix=flags["etcd_prefix"],
            compaction=compaction,
        )
    except BadSettings as error:
        raise click.UsageError(f"etcd: {error}.") from error
