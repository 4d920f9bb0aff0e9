"""Watches programs without a line of code in them, for `netdebug run`."""
