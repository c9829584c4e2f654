"""Cutting a byte stream into frames: a 4-byte length, then that many bytes.

Made for asyncio.BufferedProtocol: the socket writes into the buffer that `get_buffer` hands out. Between frames that is
a buffer from a pool, and whole frames are copied out of it. A frame of which only the beginning is there gets its own
buffer, and the rest of it is received straight into place. That buffer grows with what has arrived: four bytes that promise
100 MB must not cost 100 MB. Only a connection that has sent long frames before gets room for another one at once. A frame
given out is never written to again, so the log may keep slices of it.
"""

from struct import Struct

from kompat.errors import ProtocolError

_unpack_length = Struct(">i").unpack_from
LENGTH_SIZE = 4
SHORTEST_FRAME = 8  # API key, version, correlation id: less can not even be refused by number

POOLED_SIZE = 64 * 1024
FIRST_ROOM = 1024  # for a frame that has just begun
MOST_ROOM = 2 * 1024 * 1024  # for one on a connection that has sent such long ones before

# Taken while bytes are under way from the socket and given back when they are cut, so all idle connections together
# own none. Taking and giving back are single list operations: brokers in several threads may share the pool.
_pool: list[memoryview] = []
_NO_FRAMES: list[memoryview] = []


class FrameReader:
    """`limit` is the longest frame that is let in (`socket.request.max.bytes`)."""

    __slots__ = ("_filled", "_frame", "_head", "_length", "_limit", "_pooled", "_shortest", "_usual", "room")

    def __init__(self, limit: int, shortest: int = SHORTEST_FRAME) -> None:
        self.allow(limit, shortest)
        self._pooled: memoryview | None = None
        self._head = b""  # the first bytes of a length
        self._frame: memoryview | None = None  # a frame under way
        self._length = 0  # how long it will be
        self._filled = 0  # how much of it is there
        self._usual = FIRST_ROOM  # how long the last long frame was
        self.room = 0  # bytes of memory that a frame under way takes

    def allow(self, limit: int, shortest: int = SHORTEST_FRAME) -> None:
        """Let in frames of so many bytes from now on."""
        self._limit = limit
        self._shortest = shortest

    @property
    def pending(self) -> int:
        """Bytes received of a frame that is not complete."""
        return LENGTH_SIZE + self._filled if self._frame is not None else len(self._head)

    @property
    def lacking(self) -> int:
        """Bytes that are still to come of a frame that has begun."""
        return self._length - self._filled if self._frame is not None else 0

    @property
    def promised(self) -> int:
        """How long the frame will be that has begun."""
        return self._length if self._frame is not None else 0

    def get_buffer(self, _hint: int) -> memoryview:
        """Where the next bytes of the stream go; never empty."""
        if self._frame is not None:
            return self._frame[self._filled :]
        if self._pooled is None:
            try:
                self._pooled = _pool.pop()
            except IndexError:
                self._pooled = memoryview(bytearray(POOLED_SIZE))
        if self._head:
            self._pooled[: len(self._head)] = self._head
            return self._pooled[len(self._head) :]
        return self._pooled

    def received(self, count: int) -> list[memoryview]:
        """`count` bytes were written to the buffer: the frames that they complete."""
        frame = self._frame
        if frame is None:
            pooled, self._pooled = self._pooled, None
            if pooled is None:
                raise ValueError("received() without get_buffer()")
            frames = self._cut(pooled, len(self._head) + count)
            _pool.append(pooled)
            return frames
        self._filled += count
        if self._filled == self._length:
            self._frame = None
            self._usual = min(self._length, MOST_ROOM)
            self.room = 0
            return [frame]
        if self._filled == len(frame):
            self._resize(frame, self._filled)
        return _NO_FRAMES

    def close(self) -> None:
        """Nothing more will come: let go of all memory, at once and not when a garbage collector comes by."""
        if self._pooled is not None:
            _pool.append(self._pooled)
        self._pooled = self._frame = None
        self._head = b""
        self.room = 0

    def _cut(self, buffer: memoryview, end: int) -> list[memoryview]:
        """Copy whole frames out of the pooled buffer, and what has come of the next one."""
        frames = []
        pos = 0
        while end - pos >= LENGTH_SIZE:
            length = self._checked_length(buffer, pos)
            pos += LENGTH_SIZE
            if pos + length > end:
                self._length = length
                self._filled = end - pos
                self._resize(buffer[pos:end], self._filled)
                pos = end
                break
            frames.append(memoryview(bytearray(buffer[pos : pos + length])))
            pos += length
        self._head = bytes(buffer[pos:end])
        return frames

    def _checked_length(self, buffer: memoryview, pos: int) -> int:
        length: int = _unpack_length(buffer, pos)[0]
        if length > self._limit:
            raise ProtocolError(f"a frame of {length} bytes is above the limit of {self._limit}")
        if length < self._shortest:
            raise ProtocolError(f"a frame cannot be {length} bytes long")
        return length

    def _resize(self, begun: memoryview, size: int) -> None:
        """Room for twice of what has come, or for as much as usual."""
        self.room = min(self._length, max(2 * size, self._usual))
        larger = memoryview(bytearray(self.room))
        larger[:size] = begun
        self._frame = larger
