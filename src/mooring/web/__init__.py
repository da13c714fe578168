"""The page: a cluster's storage in a browser, live and for reading only.

    informers ──► picture (rows) ──► feed (frames, serialised once) ──► every open tab
                     └──► explanation of a pod, on a click

`picture`, `places`, `rows` and `timeline` are pure: objects in, rows out. `reading` is a client that cannot write,
`session` keeps a picture current while somebody looks, `application` answers requests that `guard` lets pass, and
`assets/` is what the browser runs: plain modules, no build step. Started by `mooring up` and `mooring page`.
"""
