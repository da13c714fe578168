"""Writes docs/troubleshooting.md from the table of messages."""
