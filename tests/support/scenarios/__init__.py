"""Scenarios that run in several environments: the objects to apply, and the expected state."""
