"""Asserts of the conformance suite speak as clearly as those of test modules."""
