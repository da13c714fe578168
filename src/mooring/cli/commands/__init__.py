"""One module per `mooring` command, imported when the command runs."""
