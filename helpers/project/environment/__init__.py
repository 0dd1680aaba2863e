"""A project's environment: made from one list, the one in ``pyproject.toml``, and checked for what breaks it."""
