"""Situations that several worlds run: what is applied, and what must be true afterwards."""
