"""One attempt of a run: what is done before the ranks, after them, and whether there is another."""
