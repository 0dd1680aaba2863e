"""What a project owns: its raw data, its environment, its tie to the template that it came from."""
