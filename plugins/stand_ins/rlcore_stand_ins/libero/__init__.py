"""Stand-ins for LIBERO's objects, fixtures and scenes, made of primitive shapes.

The stand-ins agree with LIBERO in what goal predicates and init states need: sizes to a few
millimetres, the joints and their order, the regions and their names. They differ in appearance and
exact contacts. `shapes` defines the elements of stand-ins, `objects`, `fixtures` and `scenes` list
the stand-ins, and `write` writes them to files.
"""
