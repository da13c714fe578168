"""Preemption: which pods a pod may evict, where, and the evictions."""
