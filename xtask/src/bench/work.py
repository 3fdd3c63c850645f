# Compresses the same data again and again, on one processor. Lines of its input say what happens
# meanwhile: "toggle PID..." has the perf events of those processes switched off but for a piece of
# the work at a time, by which profilers are measured against nothing and each other, side by side;
# "leave" switches them on again.
#
# After every turn of pieces, in random order, it writes when it began and ended, in nanoseconds of
# the monotonic clock, and how long each piece took: two without any of these events, and one with
# those of each process.
import ctypes
import fcntl
import lzma
import os
import random
import select
import sys
import time

# What a piece consists of: so short that the machine hardly changes between two.
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


def piece(data):
    begin = time.monotonic_ns()
    for _ in range(TIMES):
        lzma.compress(data, preset=1)
    return time.monotonic_ns() - begin


os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
with open(sys.argv[1], "rb") as file:
    data = file.read()
profilers = []
while True:
    if select.select([sys.stdin], [], [], 0)[0]:
        words = sys.stdin.readline().split()
        if not words:
            break
        for descriptors in profilers:
            switch(descriptors, ENABLE)
            for descriptor in descriptors:
                os.close(descriptor)
        profilers = [events(int(pid)) for pid in words[1:]]
        for descriptors in profilers:
            switch(descriptors, DISABLE)
    turn = [[], []] + profilers
    took = [0] * len(turn)
    begin = time.monotonic_ns()
    for number in random.sample(range(len(turn)), len(turn)):
        switch(turn[number], ENABLE)
        took[number] = piece(data)
        switch(turn[number], DISABLE)
    print(begin, time.monotonic_ns(), *took, flush=True)
