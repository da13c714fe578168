"""What the scheduler knows of nodes and pods, as columns and indexes. Pure."""
