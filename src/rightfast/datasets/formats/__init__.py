"""One module a format: its dataset and its writer."""
