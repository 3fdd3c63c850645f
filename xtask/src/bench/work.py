# Compresses the same data again and again, on one processor. Lines of its input say what happens
# meanwhile: "toggle PID" has the perf events of that process switched off and on, by which a
# profiler is measured against itself without its interrupts; "leave" ends that.
#
# After every two halves, in random order with and without interrupts, it writes when they began
# and ended, in nanoseconds of the monotonic clock, and how long each half took.
import ctypes
import fcntl
import lzma
import os
import random
import select
import sys
import time

# What a half consists of: so short that the machine hardly changes between two.
TIMES = 2
PIDFD_GETFD = 438
ENABLE, DISABLE = 0x2400, 0x2401

libc = ctypes.CDLL(None, use_errno=True)


def events(pid):
    """Copies of the descriptors of all perf events of a process."""
    process = os.pidfd_open(pid)
    found = []
    for name in os.listdir(f"/proc/{pid}/fd"):
        try:
            if os.readlink(f"/proc/{pid}/fd/{name}") != "anon_inode:[perf_event]":
                continue
        except FileNotFoundError:
            continue
        copy = libc.syscall(PIDFD_GETFD, process, int(name), 0)
        if copy < 0:
            raise OSError(ctypes.get_errno(), f"copying descriptor {name} of {pid}")
        found.append(copy)
    os.close(process)
    return found


def switch(descriptors, request):
    for descriptor in descriptors:
        fcntl.ioctl(descriptor, request, 0)


def half(data):
    begin = time.monotonic_ns()
    for _ in range(TIMES):
        lzma.compress(data, preset=1)
    return time.monotonic_ns() - begin


os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
with open(sys.argv[1], "rb") as file:
    data = file.read()
descriptors = []
while True:
    if select.select([sys.stdin], [], [], 0)[0]:
        words = sys.stdin.readline().split()
        if not words:
            break
        for descriptor in descriptors:
            os.close(descriptor)
        descriptors = events(int(words[1])) if words[0] == "toggle" else []
    begin = time.monotonic_ns()
    order = [(DISABLE, "off"), (ENABLE, "on")]
    random.shuffle(order)
    took = {}
    for request, name in order:
        switch(descriptors, request)
        took[name] = half(data)
    switch(descriptors, ENABLE)
    print(begin, time.monotonic_ns(), took["on"], took["off"], flush=True)
