"""Typed, frozen, read-only views of Kubernetes objects, with only the fields that a component reads.

A view is never encoded back: decoding drops unknown fields, so writing it would erase them; changes are patches. Views
are trees of immutable values without reference cycles, which makes `gc=False` safe and 100,000 of them cheap.
"""
