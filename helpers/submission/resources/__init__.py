"""What a job asks for: what people write, what the settings add, and what it comes to."""
