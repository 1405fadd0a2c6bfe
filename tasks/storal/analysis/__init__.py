"""Recomputation of the STORAL paper's statistics of its data (section 3, appendix A.3): `figeval analyze storal`."""
