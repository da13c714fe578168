"""Manifests as the design documents of volume topology and storage capacity wrote them, made fit for today's API.

The documents were drafts, and their YAML has defects that no server accepts. `text` repairs what is not YAML yet,
`repairs` what is, `capacity` converts the first form of CSIStorageCapacity, `manifests` puts them together. Each repair
is named where it is made; everything else passes through as it is, for the server to judge. Pure: text in, objects and
remarks out.
"""
