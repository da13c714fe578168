"""Who asks: certificates and bearer tokens, turned into a User.

    client certificate ──► common name and organisations ─┐
    token of the token file ──► the row of the file        ├─► User
    service account token ──► checked signature, claims,   │
                              account and bound object ────┘

`authenticator` tries them in that order; `impersonation` reads whom an authenticated user wants to be instead. What a
user may do is `authorization`'s question. Nothing here logs a credential or keeps one longer than a request, but for
digests of those in the token file and the signatures last found good.
"""
