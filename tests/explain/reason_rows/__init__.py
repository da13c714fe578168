"""Clusters in which a text is said, one per text of the table of messages."""
