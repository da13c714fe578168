"""Services are kept as data: the scheduler and workloads read their selectors, nobody routes traffic to them."""

from mooring.server.admission.review import Review


async def warn_of_missing_address(review: Review) -> None:
    """An author who waits for a cluster IP should hear that none will come."""
    spec = review.new["spec"]
    if spec["type"] != "ExternalName" and "clusterIP" not in spec:
        review.warnings.append("spec.clusterIP: this server assigns no addresses; services are kept as data only")
