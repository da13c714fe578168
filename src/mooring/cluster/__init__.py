"""Composes store, API server and components into one cluster. No scheduling or storage decisions."""
