"""How much budgets leak through chains, for the search: nothing here has to be believed."""
