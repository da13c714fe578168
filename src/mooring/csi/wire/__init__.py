"""Mooring's `csi.proto` and the code generated from it (`python -m tools.generate_stubs`), which is never edited.

Imported only inside `mooring.csi`; other packages use the values of `csi.contract`.
"""
