"""NetDebug: records a training, says what is wrong with it."""

from tb_netdebug.version import __version__ as __version__
