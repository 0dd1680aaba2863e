"""Runs after they were submitted: how they stand, how they ended, and what can be done with them."""
