"""Networks with injected faults."""
