"""Writes what of `deploy/` follows from tables of the code."""
