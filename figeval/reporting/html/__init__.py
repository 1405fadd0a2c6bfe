"""The HTML page of `figeval report`: one file without any address outside it."""
