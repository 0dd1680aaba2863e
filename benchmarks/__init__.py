"""Ratios against the floor and the peers, each measured in one run: ``make bench``."""
