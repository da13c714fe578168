"""Whether the values of an object make sense: one module per kind or shared part, one table.

Validators are generators of `Cause`, so that an author hears of everything that is wrong at once, in upstream's
words and at upstream's paths. They see the object after defaulting and admission, change nothing, and know no other
objects; rules for updates also see what is stored.
"""
