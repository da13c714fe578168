"""Groups of pods (PodGroup): who belongs to them, when they can be scheduled, and their scheduling attempts."""
