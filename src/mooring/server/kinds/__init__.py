"""What the API server does for each kind: defaults, validation, initial status, table columns, selectable fields.

Every module has a table `RULES` with one entry per kind, and `registry` joins them. To serve another kind, add a row to
`api.kinds` and an entry to one of these tables.
"""
