"""Ranks that are started by Open MPI."""
