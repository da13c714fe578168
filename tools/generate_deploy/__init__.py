"""Writes the files of `deploy/` that are generated from tables of the code."""
