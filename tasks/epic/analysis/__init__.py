"""Recomputation of the ePiC paper's data analysis (sections 3 and 4): `figeval benchmark analyze epic`."""
