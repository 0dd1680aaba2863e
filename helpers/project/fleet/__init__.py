"""All projects of a lab: how each stands to its template, its data and its runs."""
