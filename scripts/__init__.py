"""Tools of the checkout; none is installed."""
