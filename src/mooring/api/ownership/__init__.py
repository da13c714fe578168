"""Who said what about an object: the sets of fields behind server-side apply.

`paths` names parts of an object as `managedFields` spells them, `values` finds the parts of an object, `merge` lays
one object over another and takes parts out again, `managers` holds who owns which parts and decides what an apply or
an update does to that. Pure functions over plain JSON in normal form, guided by the field table; reading requests,
answering conflicts and storing the result belong to the server.
"""
