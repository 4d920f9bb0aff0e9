"""Programs that are watched without a line in them."""
