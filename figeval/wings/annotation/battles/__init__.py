"""Battles: two systems' texts side by side, which of them is better, and the ranking that follows."""
