"""Remedies: changes that would let a pod run, each verified by deciding the pod again. Pure."""
