"""The debugger in a terminal, opened by `netdebug debug` and `netdebug replay`."""
