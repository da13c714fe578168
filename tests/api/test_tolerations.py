import pytest

from mooring.api.tolerations import tolerates
from mooring.api.views.node import Taint
from mooring.api.views.pod import Toleration

TAINT = Taint(key="disk", value="old", effect="NoSchedule")


@pytest.mark.parametrize(
    ("toleration", "want"),
    [
        pytest.param(Toleration(key="disk", value="old", effect="NoSchedule"), True, id="the very taint"),
        pytest.param(Toleration(key="disk", operator="Equal", value="old"), True, id="any effect"),
        pytest.param(Toleration(key="disk", operator="Exists"), True, id="any value"),
        pytest.param(Toleration(operator="Exists"), True, id="everything"),
        pytest.param(Toleration(key="disk", value="new"), False, id="another value"),
        pytest.param(Toleration(key="net", operator="Exists"), False, id="another key"),
        pytest.param(Toleration(key="disk", operator="Exists", effect="NoExecute"), False, id="another effect"),
        pytest.param(Toleration(key="disk", operator="Gt", value="old"), False, id="an operator nobody knows"),
    ],
)
def test_tolerations(toleration: Toleration, want: bool) -> None:
    assert tolerates(toleration, TAINT) is want
