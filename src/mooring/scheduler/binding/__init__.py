"""Binding cycle: volumes first (PreBind), then the pod (Bind)."""
