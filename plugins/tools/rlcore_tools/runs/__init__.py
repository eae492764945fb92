"""Look over many runs: what each came to, which differ in their seed only, which setting is best.

folders --find, look--> rows --where, sort--> table | JSON
                          '--settings, seeds--> the best one, and those it can't be told apart from

A row takes one read of a few small files; tables of episodes are read where seeds are compared.
Nothing here loads tensors.
"""
