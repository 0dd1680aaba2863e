"""One process of an attempt: its place among the others, its code, its call, its end."""
