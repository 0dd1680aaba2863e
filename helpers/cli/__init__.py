"""The ``helpers`` command: parse, call one function, print one result."""
