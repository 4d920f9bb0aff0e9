"""Says how it was started, and ends in the way that its first argument names."""

import atexit
import os
import pickle
import signal
import sys
import threading
import time


class Thing:
    """Something to be pickled by the name of its module."""

    def __init__(self, value=0):
        self.value = value


def about():
    names = ("__name__", "__doc__", "__package__", "__file__", "__cached__", "__annotations__")
    print({name: globals().get(name, "missing") for name in names})
    print(__spec__ and (__spec__.name, __spec__.origin, __spec__.has_location, __spec__.parent))
    print(sorted(name for name in globals() if name.startswith("__")), type(__loader__).__name__)
    print(sys.argv, sys.path[0], sys.modules["__main__"].Thing is Thing)
    print(pickle.dumps(Thing(3)), pickle.loads(pickle.dumps(Thing(3))).value)
    print([name for name in ("torch", "numpy", "google.protobuf") if name in sys.modules])


def deep(depth):
    if depth:
        deep(depth - 1)
    raise ValueError("too deep")


def chained():
    try:
        deep(1)
    except ValueError as error:
        raise KeyError("wrapped") from error


def hooked():
    sys.excepthook = lambda kind, error, trace: print("hook", kind.__name__, trace.tb_frame.f_code.co_name)
    deep(1)


def hook_fails():
    def hook(*_):
        raise RuntimeError("in the hook")

    sys.excepthook = hook
    deep(0)


def at_exit():
    atexit.register(print, "first registered, last run")
    atexit.register(lambda: print("from main:", sys.modules["__main__"].Thing.__name__))


def threaded():
    threading.Thread(target=lambda: (time.sleep(0.2), print("the thread ends"))).start()
    sys.exit(4)


def interrupted():
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(5)


def terminated():
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(5)


def forked():
    child = os.fork()
    if not child:
        sys.exit(5)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))


WAYS = {
    "about": about,
    "return": lambda: None,
    "exit": sys.exit,
    "exit-3": lambda: sys.exit(3),
    "exit-none": lambda: sys.exit(None),
    "exit-text": lambda: sys.exit("this went wrong"),
    "exit-true": lambda: sys.exit(True),
    "exit-negative": lambda: sys.exit(-1),
    "close-streams": lambda: [each.close() for each in (sys.stdout, sys.stderr)],
    "exit-tuple": lambda: sys.exit((1, 2)),
    "raise": lambda: deep(2),
    "raise-chained": chained,
    "raise-hooked": hooked,
    "raise-hook-fails": hook_fails,
    "atexit": at_exit,
    "thread": threaded,
    "os-exit": lambda: os._exit(7),
    "interrupt": interrupted,
    "interrupt-raised": lambda: (_ for _ in ()).throw(KeyboardInterrupt),
    "terminate": terminated,
    "fork": forked,
    "stdin": lambda: print([line.upper() for line in sys.stdin]),
}

if __name__ == "__main__":
    WAYS[sys.argv[1]]()
