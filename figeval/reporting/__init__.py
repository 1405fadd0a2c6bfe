"""Tables and progress displays for people."""
