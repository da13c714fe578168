"""What an object means where its author said nothing: one module per family of kinds, one table.

Defaults fill in; they never overrule and never refuse. They run on every write, before admission, and know nothing but
the object itself. A default that depends on other objects (the default storage class) is admission.
"""
