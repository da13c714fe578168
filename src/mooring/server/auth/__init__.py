"""Authentication and authorization of the API server.

    client certificate, token file, service account token ──► User ──► RBAC index ──► AuthorizationDecision

`authenticator` tries the credentials in that order, `access` applies impersonation. Credentials are not logged, and not
kept after the request, except digests of the token file and recently verified tokens. Escalation checks (granting
only rights one has) are an admission step based on `coverage`.
"""
