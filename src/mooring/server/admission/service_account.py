"""ServiceAccount: a pod that names no account runs as `default`.

Only the name is filled in. Tokens are not mounted and the account need not exist: nothing here runs containers that
would present one.
"""

from mooring.server.admission.review import Review


async def default_service_account(review: Review) -> None:
    spec = review.new["spec"]
    spec["serviceAccount"] = spec.setdefault("serviceAccountName", "default")


async def keep_service_account(review: Review) -> None:
    """An update that says nothing of the account keeps it."""
    if review.old is not None and "serviceAccountName" in review.old["spec"]:
        spec = review.new["spec"]
        spec["serviceAccount"] = spec.setdefault("serviceAccountName", review.old["spec"]["serviceAccountName"])
