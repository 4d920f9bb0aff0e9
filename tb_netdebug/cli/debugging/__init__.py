"""The debugger in a terminal; `netdebug debug` and `netdebug replay` open it."""
