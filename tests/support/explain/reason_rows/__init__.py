"""Clusters that cause each text of the table of messages."""
