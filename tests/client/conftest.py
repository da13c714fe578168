"""Asserts of the conformance suite speak as clearly as those of test modules."""

import pytest

pytest.register_assert_rewrite("client.conformance")
