"""`python -m mooring`: the same as the `mooring` command."""

from mooring.cli.main import main

main()
