"""Every namespace has a default service account."""

from mooring.api.kinds import NAMESPACE, SERVICE_ACCOUNT
from mooring.workloads.namespaces import NamespaceController
from mooring.workloads.service_accounts import ServiceAccountController
from partial_plane import Plane, flaky, run_plane


async def accounts(plane: Plane) -> list[str]:
    return [account.key for account in (await plane.client.list(SERVICE_ACCOUNT)).items]


def test_old_and_new_namespaces_get_one() -> None:
    async def scenario(plane: Plane) -> None:
        for name in ("a", "b"):
            await plane.create(NAMESPACE, {"metadata": {"name": name}})
        await plane.pass_time()
        assert await accounts(plane) == ["a/default", "b/default", "default/default"]

    run_plane([ServiceAccountController], scenario, client=flaky(0.3))


def test_one_that_is_deleted_comes_back_and_others_are_not_missed() -> None:
    async def scenario(plane: Plane) -> None:
        await plane.pass_time()
        await plane.client.create(SERVICE_ACCOUNT, {"metadata": {"name": "mine"}}, namespace="default")
        first = await plane.get(SERVICE_ACCOUNT, "default")
        await plane.client.delete(SERVICE_ACCOUNT, "default", namespace="default")
        await plane.client.delete(SERVICE_ACCOUNT, "mine", namespace="default")
        await plane.pass_time()
        assert await accounts(plane) == ["default/default"]
        assert (await plane.get(SERVICE_ACCOUNT, "default")).uid != first.uid

    run_plane([ServiceAccountController], scenario)


def test_a_namespace_that_goes_is_left_to_go() -> None:
    async def scenario(plane: Plane) -> None:
        await plane.create(NAMESPACE, {"metadata": {"name": "a"}})
        await plane.pass_time()
        await plane.client.delete(NAMESPACE, "a")
        await plane.pass_time()
        assert await plane.names(NAMESPACE) == ["default"]
        assert await accounts(plane) == ["default/default"]

    run_plane([ServiceAccountController, NamespaceController], scenario, client=flaky(0.2))
