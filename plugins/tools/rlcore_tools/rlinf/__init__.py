"""Configuration files of RLinf as recipes of ours: file -> values -> verdicts -> recipe."""
