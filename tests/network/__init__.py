"""Networks made to order for tests."""
