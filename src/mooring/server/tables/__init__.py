"""What `kubectl get` prints: columns and cells per kind, one module per family of kinds.

`printers` is the registry. Cells are computed from the plain JSON of an object and the time, by upstream's rules,
so that people see what they know; wide columns carry priority 1. Nothing here knows HTTP or how a Table is framed.
"""
