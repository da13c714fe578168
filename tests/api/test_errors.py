"""Bounds on the size of error responses."""

from mooring.api.errors import MAX_CAUSE_CHARACTERS, MAX_CAUSES, MAX_MESSAGE, MAX_TEXT, BadRequest, Cause, invalid


def test_number_of_causes_is_bounded() -> None:
    """269 kB of labels used to be answered with 12 MB."""
    causes = (Cause("FieldValueInvalid", f"wrong {number}", "metadata.labels") for number in range(1000))
    error = invalid("Pod", "p", causes)
    assert error.details is not None
    assert len(error.details.causes) == MAX_CAUSES
    assert error.message.endswith(f"metadata.labels: wrong {MAX_CAUSES - 1}, and {1000 - MAX_CAUSES} more]")


def test_long_texts_are_cut() -> None:
    error = invalid("Pod", "n" * 100_000, [Cause("r", "m" * 1_000_000, "f" * 1_000_000)] * 50)
    assert error.details is not None
    told = sum(len(cause.message) + len(cause.field) for cause in error.details.causes)
    assert told < MAX_CAUSE_CHARACTERS + 3 * MAX_TEXT
    assert "more characters)" in error.details.causes[0].message
    message = BadRequest("x" * 3_000_000).to_status().message
    assert isinstance(message, str)
    assert len(message) < MAX_MESSAGE + 100


def test_short_texts_are_unchanged() -> None:
    error = invalid("Pod", "p", [Cause("r", "m", "f")])
    assert error.message == 'Pod "p" is invalid: f: m'
