"""Scheduling framework: plugin interfaces, the scheduling cycle, score normalization. Pure."""
