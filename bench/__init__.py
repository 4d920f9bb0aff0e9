"""What monitoring costs, measured against its peers: `make bench`."""
