"""List and compare runs: state and results of each run, and the ranking of settings over seeds.

folders --runs_below, read_row--> rows --where, sort--> table | JSON
                                    '--settings, seeds--> best setting, and undecided ones

A row is made from a few small files. Tables of episodes are read only to compare settings. Nothing
here loads tensors.
"""
