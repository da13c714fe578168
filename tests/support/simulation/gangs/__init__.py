"""Rules for gangs in a simulated cluster, and an independent search for a place of a gang that waits."""
