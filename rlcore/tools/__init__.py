"""Commands that look at what a run left: a plugin beside core, which does not know it."""
