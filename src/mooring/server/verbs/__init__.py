"""One verb per file. Each takes the environment, the target of the request, and what the request says.

A verb decides the order of things: decode, default, admit, validate, write, and what to answer. The rules themselves
are in the folders beside this one. Refusals are ApiErrors, raised.
"""
