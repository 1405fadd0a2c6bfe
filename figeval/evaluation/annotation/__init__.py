"""Human evaluation of written texts: annotation sheets that hide the authors, and the scores of filled-in sheets."""
