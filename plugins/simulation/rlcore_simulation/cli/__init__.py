"""Commands for simulators under other interpreters."""
