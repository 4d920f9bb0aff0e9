"""Replication of event files to another machine, by an agent and a collector; only they import gRPC."""
