"""Hand-made HTTP/2, for what no real client does, and a relay that counts the frames of real ones.

Only what the tests need of RFC 9113: header blocks are written without compression, and those of
the server are not decoded.
"""

import collections
import contextlib
import os
import re
import socket
import struct
import threading

DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY = 0, 1, 3, 4, 6, 7
END_STREAM = ACK = 1
END_HEADERS = 4
MAX_CONCURRENT_STREAMS, INITIAL_WINDOW_SIZE = 3, 4  # settings
ENHANCE_YOUR_CALM = 11  # an error code
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

GENERATE = "/quire.v1.GenerationService/Generate"

Frame = collections.namedtuple("Frame", "type flags stream payload")


def frame(kind, flags, stream, payload=b""):
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def _length(count):
    """An integer with a prefix of 7 bits."""
    if count < 127:
        return bytes([count])
    out, count = [127], count - 127
    while count >= 128:
        out.append(count % 128 + 128)
        count //= 128
    return bytes(out + [count])


def header_block(fields):
    """Each a literal that is not entered into the peer's table."""
    block = b""
    for name, value in fields:
        block += b"\0" + _length(len(name)) + name.encode() + _length(len(value)) + value.encode()
    return block


def call_headers(path, *more):
    return header_block([(":method", "POST"), (":scheme", "http"), (":path", path),
                         (":authority", "test"), ("content-type", "application/grpc"),
                         ("te", "trailers"), *more])


def message(data):
    """As a message of gRPC, not compressed."""
    return b"\0" + struct.pack(">I", len(data)) + data


def _read(file):
    """The next frame, or None where the peer closed."""
    head = file.read(9)
    if len(head) < 9:
        return None
    payload = file.read(int.from_bytes(head[:3], "big"))
    return Frame(head[3], head[4], int.from_bytes(head[5:9], "big") & 0x7FFFFFFF, payload)


def to_address(text):
    host, port = text.rsplit(":", 1)
    return host, int(port)


class RawConnection:
    """One connection that does just what the test says; a context manager."""

    def __init__(self, address, settings=(), acknowledges=True, timeout_s=60):
        self.acknowledges = acknowledges
        self.socket = socket.create_connection(to_address(address), timeout_s)
        self.file = self.socket.makefile("rb")
        payload = b"".join(struct.pack(">HI", key, value) for key, value in settings)
        self.socket.sendall(PREFACE + frame(SETTINGS, 0, 0, payload))

    def send(self, *args):
        self.socket.sendall(frame(*args))

    def call(self, stream, path, data, *more, end_stream=True):
        self.send(HEADERS, END_HEADERS, stream, call_headers(path, *more))
        self.send(DATA, END_STREAM if end_stream else 0, stream, message(data))

    def read(self):
        """The next frame, or None where the server closed."""
        try:
            got = _read(self.file)
        except ConnectionResetError:
            return None
        if got and self.acknowledges and got.type in (SETTINGS, PING) and not got.flags & ACK:
            with contextlib.suppress(OSError):  # it may have closed since
                self.send(got.type, ACK, 0, got.payload if got.type == PING else b"")
        return got

    def read_until(self, wanted):
        """Frames up to the first for which wanted(frame) is true, or to the close."""
        frames = []
        while True:
            frames.append(self.read())
            if frames[-1] is None or wanted(frames[-1]):
                return frames

    def read_stream(self, stream):
        """All frames of a stream, up to its end: trailers or a reset."""
        frames = self.read_until(lambda f: f.stream == stream and (
            f.type == RST_STREAM or f.type == HEADERS and f.flags & END_STREAM))
        return [f for f in frames if f is not None and f.stream == stream]

    def close(self):
        self.file.close()
        self.socket.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def messages(frames):
    """What the DATA frames of a stream hold."""
    data = b"".join(f.payload for f in frames if f.type == DATA)
    found = []
    while data:
        size = int.from_bytes(data[1:5], "big")
        found.append(data[5:5 + size])
        data = data[5 + size:]
    return found


class Relay:
    """Between real clients and the server: passes all on, and counts the frames of each side.

    `from_client` and `from_server` count by type; acknowledgements are counted as "ack".
    """

    def __init__(self, address):
        self.target = to_address(address)
        self.from_client, self.from_server = collections.Counter(), collections.Counter()
        self.num_connections = 0
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self.listener.getsockname()[1]}"
        self.sockets = [self.listener]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        with contextlib.suppress(OSError):  # closed
            while True:
                client, _ = self.listener.accept()
                self.num_connections += 1
                server = socket.create_connection(self.target)
                self.sockets += [client, server]
                for args in [(client, server, self.from_client, len(PREFACE)),
                             (server, client, self.from_server, 0)]:
                    threading.Thread(target=self._pass_on, args=args, daemon=True).start()

    def _pass_on(self, source, sink, counts, skip):
        """Counts frames by their headers; the first `skip` bytes are none."""
        pending = b""
        with contextlib.suppress(OSError):
            while True:
                got = source.recv(1 << 16)
                if not got:
                    break
                sink.sendall(got)
                pending += got
                while len(pending) >= skip + 9:
                    head = pending[skip:skip + 9]
                    end = skip + 9 + int.from_bytes(head[:3], "big")
                    if len(pending) < end:
                        break
                    is_ack = head[3] in (SETTINGS, PING) and head[4] & ACK
                    counts["ack" if is_ack else head[3]] += 1
                    pending, skip = pending[end:], 0
        for end in (source, sink):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def close(self):
        for each in self.sockets:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def _established():
    """(local port, remote port, inode) of all TCP connections, as the kernel says."""
    rows = []
    for name in ["tcp", "tcp6"]:  # gRPC takes sockets of IPv6 for addresses of IPv4 too
        with open("/proc/net/" + name, encoding="ascii") as table:
            rows += re.findall(r"^ *\d+: \w+:(\w+) \w+:(\w+) 01(?: +\S+){5} +(\d+) ",
                               table.read(), re.MULTILINE)
    return [(int(local, 16), int(remote, 16), inode) for local, remote, inode in rows]


def clients_of(address):
    """The client ports of all connections that the server at `address` has."""
    return {remote for local, remote, _ in _established() if local == to_address(address)[1]}


def ports_of(pid):
    """The local ports of a process's connections."""
    links = set()
    for name in os.listdir(f"/proc/{pid}/fd"):
        with contextlib.suppress(OSError):  # closed meanwhile
            links.add(os.readlink(f"/proc/{pid}/fd/{name}"))
    return {local for local, _, inode in _established() if f"socket:[{inode}]" in links}
