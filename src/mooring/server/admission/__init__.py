"""Admission: steps that complete, warn about or reject a write and may read other objects.

Steps do the same as kube-apiserver's admission plugins of the name in their docstrings. Authorization happens before
the verbs, validation after these steps.
"""
