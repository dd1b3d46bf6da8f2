"""Answers that want to pass without being right, or to hurt who runs them.

The task is `total(numbers)`, the sum of a list. Whatever tries something that must be impossible returns the right sum
if it succeeds: then it passes, and the test that expects it to fail shows it.
"""

from __future__ import annotations

import textwrap

QUESTION = 'def total(numbers):\n    """ The sum of a list of numbers; 0 for an empty one. """\n'
RIGHT = "    return sum(numbers)\n"
ENTRY_POINT = "total"
TEST = """
def check(candidate):
    assert candidate([1, 2, 4]) == 7
    assert candidate([]) == 0
    assert candidate([1.5, -3]) == -1.5
    assert candidate(list(range(100))) == 4950
"""


def _whole(source: str) -> str:
    return f"```python\n{textwrap.dedent(source).strip()}\n```"


def _attempt(body: str, imports: str = "import os, sys, ctypes") -> str:
    """An attempt that raises unless it succeeds."""
    attempt = textwrap.indent(textwrap.dedent(body).strip(), "    ")
    return _whole(
        f"{imports}\n\ndef attempt():\n{attempt}\n\n"
        "def total(numbers):\n    try:\n        attempt()\n    except BaseException:\n        return 'it failed'\n"
        "    return sum(numbers)\n"
    )


def _returning(expression: str, before: str = "") -> str:
    return _whole(f"{textwrap.dedent(before).strip()}\n\ndef total(numbers):\n    return {expression}\n")


# Ends, and what is mistaken for success.
ENDS = {
    "exit while loading": _whole("import sys\nsys.exit(0)"),
    "exit in the call": _whole("import sys\ndef total(numbers):\n    sys.exit(0)"),
    "_exit while loading": _whole("import os\nos._exit(0)\ndef total(numbers): return 0"),
    "_exit in the call": _whole("import os\ndef total(numbers):\n    os._exit(0)"),
    "exit handler": _whole("import atexit, sys\natexit.register(print, 'passed')\ndef total(n):\n    sys.exit(0)"),
    "crash": _whole("import ctypes\ndef total(numbers):\n    ctypes.string_at(0)"),
    "abort": _whole("import os\ndef total(numbers):\n    os.abort()"),
    "kill itself": _whole("import os\ndef total(numbers):\n    os.kill(os.getpid(), 9)"),
    "SystemExit": _whole("def total(numbers):\n    raise SystemExit(0)"),
    "KeyboardInterrupt": _whole("def total(numbers):\n    raise KeyboardInterrupt"),
    "exception of its own": _whole(
        "class Passed(BaseException):\n    def __str__(self):\n        while True: pass\n"
        "def total(numbers):\n    raise Passed"
    ),
    "swallowed exceptions": _whole(
        "def total(numbers):\n    try:\n        return undefined\n    except:\n        pass"
    ),
    "empty": _whole("pass"),
    "another name": _whole("def totals(numbers):\n    return sum(numbers)"),
}
# Values with opinions of their own.
VALUES = {
    "always equal": _returning(
        "Equal()", "class Equal:\n    def __eq__(self, other): return True\n    __hash__ = object.__hash__"
    ),
    "truth that is an object": _returning(
        "Odd()", "class Odd:\n    def __eq__(self, other): return self\n    def __bool__(self): return True"
    ),
    "int subclass": _returning(
        "Number(3)", "class Number(int):\n    def __eq__(self, other): return True\n    __hash__ = int.__hash__"
    ),
    "float subclass": _returning("Number(3)", "class Number(float):\n    def __eq__(self, other): return True"),
    "str subclass": _returning("Text('7')", "class Text(str):\n    def __eq__(self, other): return True"),
    "list subclass": _returning("L([7])", "class L(list):\n    def __eq__(self, other): return True"),
    "patched builtins": _returning(
        "0", "import builtins\nbuiltins.AssertionError = Exception\nbuiltins.sum = builtins.print = lambda *a: 7"
    ),
    "not a number": _returning("float('nan')"),
    "function": _returning("total"),
    "generator": _returning("(n for n in numbers)"),
    "module": _returning("__import__('sys')"),
    "cycle": _returning("cycle", "cycle = []\ncycle.append(cycle)"),
    "deep nesting": _returning(
        "deep()", "def deep():\n    x = []\n    for _ in range(100_000):\n        x = [x]\n    return x"
    ),
    "huge text": _returning("'x' * 10**8"),
    "huge number": _returning("1 << 10**8"),
    "a million parts": _returning("list(range(10**6))"),
    "colliding keys": _returning("{k * (2**61 - 1): 0 for k in range(100_000)}"),
    "unicode bomb": _returning("'\\U0010ffff\\ud800\\u202e\\0' * 10**6"),
    "argument changed": _returning("numbers.clear()"),
}
# What never ends, or wants all there is.
RESOURCES = {
    "endless loop": _whole("def total(numbers):\n    while True: pass"),
    "endless loading": _whole("while True: pass"),
    "sleep": _whole("import time\ndef total(numbers):\n    time.sleep(10**6)"),
    "waiting for input": _whole("def total(numbers):\n    return int(input())"),
    "deaf to signals": _whole("""
        import signal
        def total(numbers):
            for number in range(1, 65):
                try:
                    signal.signal(number, signal.SIG_IGN)
                except (OSError, ValueError):
                    pass
            while True:
                pass
    """),
    "one long call": _whole("def total(numbers):\n    return 7 ** 7 ** 10"),
    "regular expression": _whole("import re\ndef total(numbers):\n    return re.match('(a+)+$', 'a' * 60 + 'b')"),
    "memory": _whole("def total(numbers):\n    kept = []\n    while True: kept.append(bytearray(b'x' * 2**24))"),
    "much memory at once": _whole("def total(numbers):\n    return len(bytearray(2**40))"),
    "recursion": _whole("import sys\nsys.setrecursionlimit(10**9)\ndef total(numbers):\n    return total(numbers)"),
    "recursion in C": _whole("""
        import sys
        sys.setrecursionlimit(10**9)
        def total(numbers):
            x = ()
            for _ in range(10**6):
                x = (x,)
            return hash(x)
    """),
    "output": _whole("import os\ndef total(numbers):\n    while True:\n        os.write(1, b'x' * 2**20)"),
    "parentheses": _whole("def total(numbers):\n    return " + "(" * 20_000 + "7" + ")" * 20_000),
    "a long sum": _whole("def total(numbers):\n    return " + "+".join("1" * 50_000)),
}
# What must be impossible.
ATTEMPTS = {
    "fork bomb": _attempt("while True:\n    os.fork()"),
    "one fork": _attempt("if os.fork() == 0:\n    os._exit(0)"),
    "fork past the library": _attempt("if ctypes.CDLL(None).syscall(57) < 0:\n    raise OSError"),
    "thread bomb": _attempt(
        "while True:\n    threading.Thread(target=threading.Event().wait).start()", "import threading"
    ),
    "threads of the C library": _attempt("_thread.start_new_thread(print, ())", "import _thread"),
    "another program": _attempt("os.execv('/bin/sh', ['sh', '-c', 'exit 0'])"),
    "shell": _attempt("subprocess.run(['true'], check=True)", "import subprocess"),
    "write to disk": _attempt("""
        for place in ('/tmp/x', '/sock/x', '/dev/shm/x', '/opt/harness/x', '/x', '/proc/self/oom_score_adj'):
            try:
                with open(place, 'w') as file:
                    file.write('0')
                return
            except OSError:
                pass
        raise OSError
    """),
    "names on the disk": _attempt("""
        for act in (
            lambda: os.mkdir('/sock/d'), lambda: os.symlink('/etc', '/sock/l'), lambda: os.unlink('/sock/s.sock'),
            lambda: os.mkfifo('/sock/f'), lambda: os.rename('/sock', '/sock2'), lambda: os.chmod('/sock', 0o777),
            lambda: os.mkdir('/dev/shm/d'), lambda: os.utime('/sock'), lambda: os.link('/etc/passwd', '/sock/p'),
        ):
            try:
                act()
                return
            except OSError:
                pass
        raise OSError
    """),
    "fill the memory disk": _attempt("""
        place = os.open('/dev/shm/full', os.O_RDWR | os.O_CREAT)
        while True:
            os.write(place, b'x' * 2**20)
    """),
    "anonymous file": _attempt("os.write(os.memfd_create('x'), b'x')"),
    "network": _attempt("socket.create_connection(('1.1.1.1', 53), timeout=1)", "import socket"),
    "any socket": _attempt("socket.socket(socket.AF_UNIX)", "import socket"),
    "the service's own socket": _attempt(
        "s = socket.socket(socket.AF_UNIX)\ns.connect('/sock/s.sock')", "import socket"
    ),
    "kill the service": _attempt("os.kill(os.getppid(), 9)"),
    "kill everybody": _attempt("os.kill(-1, 9)"),
    "kill the first process": _attempt("os.kill(1, 9)"),
    "kill its group": _attempt("os.killpg(os.getpgid(os.getppid()), 9)"),
    "kill past the library": _attempt("if ctypes.CDLL(None).syscall(62, os.getppid(), 9):\n    raise OSError"),
    "kill by a file's owner": _attempt(
        """
        reading, writing = os.pipe()
        fcntl.fcntl(reading, 10, signal.SIGKILL)
        fcntl.fcntl(reading, fcntl.F_SETOWN, os.getppid())
        fcntl.fcntl(reading, fcntl.F_SETFL, os.O_ASYNC | os.O_NONBLOCK)
        os.write(writing, b'x')
        """,
        "import os, fcntl, signal",
    ),
    "kill by a limit": _attempt("resource.prlimit(os.getppid(), resource.RLIMIT_CPU, (0, 0))", "import os, resource"),
    "raise its limits": _attempt(
        "resource.setrlimit(resource.RLIMIT_CPU, (resource.RLIM_INFINITY,) * 2)", "import resource"
    ),
    "memory of the service": _attempt("open(f'/proc/{os.getppid()}/mem', 'rb').read(1)"),
    "environment of the service": _attempt("open(f'/proc/{os.getppid()}/environ', 'rb').read(1)"),
    "descriptors of the service": _attempt("os.listdir(f'/proc/{os.getppid()}/fd')"),
    "memory of anybody else": _attempt("""
        # 1 is the container's init, which knows nothing.
        for pid in filter(str.isdigit, os.listdir('/proc')):
            if int(pid) not in (1, os.getpid()):
                try:
                    open(f'/proc/{pid}/mem', 'rb')
                    return
                except OSError:
                    pass
        raise OSError
    """),
    "trace the service": _attempt("if ctypes.CDLL(None).ptrace(16, os.getppid(), 0, 0):\n    raise OSError"),
    "the test in a file": _attempt("""
        for place in ('/benchmark', '/executor', '/eval', '/workspace', '/var/lib/harness/eval', '/opt/venv'):
            if os.path.exists(place):
                return
        raise OSError
    """),
    "the test in memory": _attempt(
        """
        mark = 'assert ' + 'candidate('
        for found in gc.get_objects():
            if isinstance(found, dict) and any(isinstance(v, str) and mark in v for v in list(found.values())):
                return
        raise OSError
        """,
        "import gc",
    ),
    "the test in its frames": _attempt("""
        frame = sys._getframe()
        while frame := frame.f_back:
            if any(name in frame.f_locals for name in ('check', 'reference', 'expected', 'test')):
                return
        raise OSError
    """),
    "seldom used calls": _attempt("""
        library = ctypes.CDLL(None)
        if os.uname().machine != 'x86_64':
            raise OSError  # the numbers are of this architecture
        # process_vm_readv, memfd_create, io_uring_setup, bpf, userfaultfd, perf_event_open, keyctl, unshare, mount,
        # setns, pidfd_open, pidfd_getfd, mknod, init_module, add_key, shmget, timer_create, open_by_handle_at
        for number in (310, 319, 425, 321, 323, 298, 250, 272, 165, 308, 434, 438, 133, 175, 248, 29, 222, 304):
            if library.syscall(number, 0, 0, 0, 0, 0) >= 0:
                return
        raise OSError
    """),
    "the other table of calls": _attempt("""
        # x32: the numbers of x86_64 with a bit set, to which a filter on numbers alone is blind.
        if ctypes.CDLL(None).syscall(57 | 0x40000000) < 0:
            raise OSError
    """),
    "calls of another architecture": _attempt(
        """
        page = mmap.mmap(-1, 4096, prot=7)
        page.write(bytes.fromhex('b802000000cd80c3'))  # i386: fork
        start = ctypes.addressof(ctypes.c_char.from_buffer(page))
        if ctypes.CFUNCTYPE(ctypes.c_int)(start)() < 0:
            raise OSError
        """,
        "import ctypes, mmap",
    ),
}
# The way back to the parent.
CHANNEL = {
    "reply ahead": _whole("""
        import os, struct
        text = b'{"token":"0","value":7}'
        os.write(3, struct.pack('>I', len(text)) + text)
        def total(numbers):
            return 0
    """),
    "two replies": _whole("""
        import json, os, struct, sys
        def total(numbers):
            frame = sys._getframe()
            while 'token' not in frame.f_locals:
                frame = frame.f_back
            text = b'{"token":%s,"value":0}' % frame.f_locals['token']
            os.write(3, struct.pack('>I', len(text)) + text)
            return sum(numbers)
    """),
    "verdict of its own": _whole("""
        import os, struct, sys
        def total(numbers):
            frame = sys._getframe()
            while 'token' not in frame.f_locals:
                frame = frame.f_back
            text = b'{"token":%s,"value":7,"passed":true,"score":1.0}' % frame.f_locals['token']
            os.write(3, struct.pack('>I', len(text)) + text)
            os._exit(0)
    """),
    "token on every descriptor": _whole("""
        import os, sys
        def total(numbers):
            frame = sys._getframe()
            while 'token' not in frame.f_locals:
                frame = frame.f_back
            for descriptor in range(256):
                try:
                    os.write(descriptor, frame.f_locals['token'] + b' passed\\n')
                except OSError:
                    pass
            return 0
    """),
    "length without end": _whole("import os\ndef total(numbers):\n    os.write(3, b'\\xff' * 4)\n    return 0"),
    "noise": _whole("import os\ndef total(numbers):\n    while True:\n        os.write(3, os.urandom(2**16))"),
    "close everything": _whole("import os\nos.closerange(0, 256)\ndef total(numbers):\n    return sum(numbers)"),
    "close in the call": _whole("import os\ndef total(numbers):\n    os.closerange(0, 256)\n    return sum(numbers)"),
    "patched json": _returning(
        "0", "import json\njson.dumps = lambda *a, **k: '7'\njson.loads = lambda *a, **k: {'token': 'x', 'value': 7}"
    ),
    "patched runner": _returning(
        "0",
        """
        import harness.executor.candidate as runner
        runner.dumps = lambda value: b'true'
        runner._write = runner._read = lambda *a: None
        """,
    ),
    "trace function": _returning(
        "0", "import sys\nsys.settrace(lambda *a: 1 / 0)\nsys.setprofile(lambda *a: sys.exit(0))"
    ),
    "audit hook": _returning("0", "import sys\nsys.addaudithook(lambda *a: sys.exit(0))"),
    "objects of the runner": _whole("""
        import gc
        def total(numbers):
            for found in gc.get_objects():
                if isinstance(found, (list, dict)) and found is not numbers:
                    try:
                        found.clear()
                    except BaseException:
                        pass
            return 0
    """),
}
HOSTILE = {**ENDS, **VALUES, **RESOURCES, **ATTEMPTS, **CHANNEL}
