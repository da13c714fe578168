"""What a caller may conclude from a driver's error."""

import pytest

from mooring.csi.contract import Code, DriverError

MAY_STILL_RUN = {Code.CANCELLED, Code.DEADLINE_EXCEEDED, Code.UNAVAILABLE, Code.ABORTED}


@pytest.mark.parametrize("code", Code, ids=lambda code: code.name)
def test_only_these_leave_open_whether_the_driver_is_still_at_it(code: Code) -> None:
    assert DriverError(code, "no").final is (code not in MAY_STILL_RUN)


def test_an_error_reads_as_grpc_tools_print_it() -> None:
    assert str(DriverError(Code.RESOURCE_EXHAUSTED, "pool fast has 1 GiB left")) == (
        "RESOURCE_EXHAUSTED: pool fast has 1 GiB left"
    )
