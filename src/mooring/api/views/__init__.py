"""Typed, frozen, read-only views of Kubernetes objects: one module per kind, only the fields somebody reads.

A view is decoded from JSON and never encoded back: unknown fields are dropped on the way in, so writing a view
would erase them. Changes are patches. Views are trees of immutable values without reference cycles, which is
what makes `gc=False` safe and 100,000 of them cheap.
"""
