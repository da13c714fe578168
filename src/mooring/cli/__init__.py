"""The `mooring` command. One module per subcommand; heavy imports happen inside them, so that help is instant."""
