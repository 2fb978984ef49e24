"""Stops one thread of a server, by ptrace: SkipTest where that is not allowed."""

import contextlib
import ctypes
import os
import unittest


class HeldThread:
    """Stops one thread of another process, as a device that hangs would."""

    SEIZE, INTERRUPT, DETACH, WALL = 0x4206, 0x4207, 17, 0x40000000

    def __init__(self, pid, name):
        self.libc = ctypes.CDLL(None, use_errno=True)
        self.libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
        self.tid = None
        for tid in os.listdir(f"/proc/{pid}/task"):
            # Threads that loaded the model end meanwhile.
            with (contextlib.suppress(FileNotFoundError, ProcessLookupError),
                  open(f"/proc/{pid}/task/{tid}/comm", encoding="utf-8") as comm):
                if comm.read().strip() == name:
                    self.tid = int(tid)
        assert self.tid is not None, f"no thread {name!r} in process {pid}"
        self._ptrace(self.SEIZE)
        self._ptrace(self.INTERRUPT)
        os.waitpid(self.tid, self.WALL)

    def _ptrace(self, request):
        if self.libc.ptrace(request, self.tid, None, None) != 0:
            error = ctypes.get_errno()
            raise unittest.SkipTest(f"ptrace({request:#x}): {os.strerror(error)}")

    def let_go(self):
        self._ptrace(self.DETACH)

    def reap(self):
        """It is gone only when its tracer has seen so."""
        os.waitpid(self.tid, self.WALL)
