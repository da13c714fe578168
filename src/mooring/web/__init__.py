"""The dashboard: storage of a cluster in a browser, live and read-only. Started by `mooring up` and `mooring page`.

    informers ──► picture (rows) ──► session (frames, serialised once) ──► every open tab
                     └──► explanations of pods and groups, and recovery plans, on a click

`picture`, `rows`, `groups` and `pool_history` are pure. The client of a `session` cannot write, `server` checks tokens
and answers requests, and `assets/` is what the browser runs: plain modules, no build step.
"""
