"""Exclude the distributions in this folder from collection: test_third_party.py installs and tests them."""

collect_ignore_glob = ["*"]
