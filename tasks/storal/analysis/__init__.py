"""`figeval benchmark analyze storal`: the STORAL paper's statistics of its data (section 3, A.3), recomputed."""
