"""People's tables: CSV, TSV and Parquet files or a pipe, as arrays; what cannot be used is refused in one line that says why.

`read` takes a table into memory, `stream` goes through one that does not fit, chunk by chunk. Both name the file, the column
and the row in what they refuse, and say what they left out.
"""

from harmix.tables.columns import TimeAxis as TimeAxis
from harmix.tables.read import Chunk as Chunk
from harmix.tables.read import Places as Places
from harmix.tables.read import Stream as Stream
from harmix.tables.read import Table as Table
from harmix.tables.read import places as places
from harmix.tables.read import read as read
from harmix.tables.read import stream as stream
from harmix.tables.sources import LARGEST_IN_MEMORY as LARGEST_IN_MEMORY
from harmix.tables.sources import Source as Source
from harmix.tables.sources import TableError as TableError
from harmix.tables.sources import open_source as open_source
