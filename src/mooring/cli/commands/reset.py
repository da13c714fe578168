"""`mooring reset`: delete the state of an embedded cluster, so that the next `mooring up` starts an empty one.

Deletes what `mooring up` keeps of objects and volumes, and nothing else: certificates, token and kubeconfig stay, so
that a shell's KUBECONFIG stays valid, and so do files that are not Mooring's. A cluster that runs is refused.
"""

import shutil
from pathlib import Path
from typing import Final

import click

from mooring.cli import options
from mooring.cli.terminal import InvalidInput
from mooring.store.contract import StoreUnusable
from mooring.store.sqlite import exclusive

#: In the data folder: the objects with SQLite's files beside them, and volumes with their records.
STATE: Final = "state.db"
STATE_FILES: Final = (STATE, f"{STATE}-wal", f"{STATE}-shm", f"{STATE}-journal")
VOLUMES: Final = "csi"


@click.command()
@click.option(
    "--data-dir",
    type=options.FOLDER,
    help="Folder of the cluster's state.  [default: mooring in the user's data folder]",
)
@click.option("-y", "--yes", is_flag=True, help="Do not ask for confirmation.")
def reset(data_dir: Path | None, yes: bool) -> None:
    """Delete all objects and volumes of an embedded cluster that is stopped.

    The data in its volumes is lost. Certificates, token and kubeconfig are kept: a KUBECONFIG of the cluster works
    again after the next `mooring up`.

    Exit codes: 0 when the cluster is empty; 1 when the deletion was not confirmed or the cluster runs; 2 when the
    folder is not a cluster's.
    """
    folder = data_dir or options.data_folder()
    if not (folder / STATE).is_file():
        raise InvalidInput(f"{folder} has no cluster: name the folder that mooring up uses with --data-dir.")
    if not yes:
        question = f"This deletes all objects of the cluster in {folder}, and its volumes with their data. Continue?"
        click.confirm(question, abort=True)
    try:
        with exclusive(folder / STATE):
            if (folder / VOLUMES).is_dir():
                shutil.rmtree(folder / VOLUMES)
            for name in STATE_FILES:
                (folder / name).unlink(missing_ok=True)
    except StoreUnusable as error:
        raise click.ClickException(f"{error}.") from error
    click.echo(f"The cluster in {folder} is empty. mooring up starts it again.")
