"""Bound claims that no pod ever used: the proof, and how such a claim is replaced. Pure."""
