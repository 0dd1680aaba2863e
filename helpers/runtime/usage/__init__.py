"""What an attempt used of what it asked for."""
