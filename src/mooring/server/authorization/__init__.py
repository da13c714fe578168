"""Who may do what: role-based access control, as Kubernetes defines it.

    attributes ──► index (rules of every subject, pure) ──► decision
                     ▲
                  authorizer (keeps the index at the store's newest revision)

`rules` says what one rule allows and what a set of rules covers, `index` which rules a user has, `authorizer` keeps
that current, `refusals` words the no. `bootstrap` and its tables are what a new cluster grants; `guarded_api` puts the
check in front of the verbs for callers in the same process, as the HTTP shell does for those outside.

Who a user is, is `authentication`'s business; that nobody grants more than they have is an admission step.
"""
