"""As whom pods run."""

from builders import pod_body
from mooring.api.kinds import POD
from server.harness import Harness


async def test_a_pod_that_names_no_account_runs_as_the_default_one(server: Harness) -> None:
    spec = (await server.create(POD, pod_body(name="p")))["spec"]
    assert (spec["serviceAccountName"], spec["serviceAccount"]) == ("default", "default")


async def test_the_account_need_not_exist_and_no_token_is_mounted(server: Harness) -> None:
    body = pod_body(name="p")
    body["spec"]["serviceAccountName"] = "nobody"
    spec = (await server.create(POD, body))["spec"]
    assert spec["serviceAccountName"] == "nobody"
    assert "volumes" not in spec
