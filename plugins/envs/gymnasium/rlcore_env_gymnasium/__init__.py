"""Any env of gymnasium for rlcore, by its id."""
