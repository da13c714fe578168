"""The Kubernetes API as values: kinds, typed read views, quantities, selectors, patches, errors and well-known names.

Bottom layer: imports nothing of Mooring, has no I/O, clock or state. Not a full object model: the JSON bytes are
authoritative, views hold only the fields that a component reads, and objects are changed by patches, never by encoding
a view.
"""
