"""Convert configuration files of RLinf to recipes: file -> values -> verdicts -> recipe."""
