"""CSIStorageCapacity: segments, objects, and the publisher that keeps them current."""
