"""A browser, and random settings, for the tests of the HTML report."""
