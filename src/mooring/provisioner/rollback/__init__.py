"""Held volumes: provisioning under the hold protocol, rollback, and claims of lost nodes."""
