"""Checks that judge a cluster or a machine, each with what it means."""
