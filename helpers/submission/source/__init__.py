"""What goes into the run folder: the code, the call and its secrets, tried before they are queued."""
