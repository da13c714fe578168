"""The HTTP shell: the API server as clients on a network see it.

`shell` takes a request, asks `server.authentication` who sent it and `server.authorization` whether they may (as whom,
says `impersonation`), `routing` what it is about, `options` and `bodies` what exactly they want; `resources` calls the
verbs and `presentation` shows the result, `watch_stream` for as long as it takes. `discovery` and `openapi` describe
it all, `listening` holds the socket. No semantics of objects: those are behind `server.contract.Api`.
"""
