"""Records into event files, on a thread of its own that never holds up the training."""

from tb_netdebug.core.eventlog.writer.event_writer import Counters as Counters
from tb_netdebug.core.eventlog.writer.event_writer import EventWriter as EventWriter
from tb_netdebug.core.eventlog.writer.event_writer import WriterError as WriterError
from tb_netdebug.core.eventlog.writer.located_warnings import WriterWarning as WriterWarning
from tb_netdebug.core.eventlog.writer.mirror import MirrorOptions as MirrorOptions
