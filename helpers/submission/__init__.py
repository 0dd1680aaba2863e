"""Runs on the login node: what a job asks for, how it is submitted, what became of it."""
