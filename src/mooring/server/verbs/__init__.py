"""The verbs of the API. Each takes the request context, the target, and the content of the request.

A verb orders the steps (decode, default, admit, validate, write) and forms the response; the rules of the steps are in
the other packages. Rejections are raised as ApiErrors.
"""
