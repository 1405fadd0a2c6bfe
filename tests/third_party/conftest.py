"""Distributions of their own: installed and tested by test_third_party.py, not collected with figeval's tests."""

collect_ignore_glob = ["*"]
