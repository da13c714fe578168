"""The types of Kubernetes as data: a generated field table and its readers. Pure; the table is read at first use.

Checks cover names and JSON types of fields, not which values they may have.
"""
