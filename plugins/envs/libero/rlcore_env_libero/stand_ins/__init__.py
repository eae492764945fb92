"""LIBERO's objects, fixtures and scenes as primitive shapes, written by us.

What predicates and init states need is as in LIBERO: sizes to a few millimetres, the joints and
their order, the regions and their names. Looks and exact contacts are not. `shapes` says what a
thing is made of, `objects`, `fixtures` and `scenes` list them, `write` puts them into files.
"""
