"""The tie between a project and the template that it came from: its stamp, its drift, its updates."""
