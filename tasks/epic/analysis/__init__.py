"""The data analysis of the ePiC paper (sections 3 and 4), recomputed: `figeval analyze epic`."""
