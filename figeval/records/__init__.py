"""The files that a run leaves behind, and the functions that write them and read them back."""
