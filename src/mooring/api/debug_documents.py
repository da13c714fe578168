"""What a process shows of its inner state to whoever may look: read-only JSON documents on paths of their own.

Contract between those who have something to show and the two listeners of the project, the API server's and that of
components. The listeners see to who may look; whoever fills a document sees to it that no secret is in it.
"""

from collections.abc import Callable, Mapping

#: The parameters of a request, each once.
Query = Mapping[str, str]
#: Quick, and changes nothing. Raises BadRequest when the parameters make no sense.
Inspect = Callable[[Query], bytes]
#: By path, such as `/debug/attempts`.
DebugDocuments = Mapping[str, Inspect]
