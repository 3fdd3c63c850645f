"""How long Unicorn takes for the windows of the benchmark, next to the interpreter.

    VCPI_WINDOWS=windows.txt cargo bench -p interpreter -- "real windows"
    pip install unicorn && python3 interpreter/benches/with_unicorn.py windows.txt

Each window is run a number of times from the same registers; memory that it stored to stays as it
is, which spares Unicorn what the interpreter does anew. Its translated code stays, too. What
Python adds to a call is measured with a window of one instruction, and shown.
"""

import statistics
import struct
import sys
import time

import unicorn
from unicorn import x86_const as x86

PAGE = 4096
REPEATS = 200
REGISTERS = [
    x86.UC_X86_REG_RAX, x86.UC_X86_REG_RCX, x86.UC_X86_REG_RDX, x86.UC_X86_REG_RBX,
    x86.UC_X86_REG_RSP, x86.UC_X86_REG_RBP, x86.UC_X86_REG_RSI, x86.UC_X86_REG_RDI,
    x86.UC_X86_REG_R8, x86.UC_X86_REG_R9, x86.UC_X86_REG_R10, x86.UC_X86_REG_R11,
    x86.UC_X86_REG_R12, x86.UC_X86_REG_R13, x86.UC_X86_REG_R14, x86.UC_X86_REG_R15,
]


def small(address, size):
    """The memory of the benchmark: small numbers."""
    return bytes((a & 0xFF) * 7 & 0x3F for a in range(address, address + size))


def machine(path):
    """A machine with a library loaded, and small numbers wherever else it looks."""
    uc = unicorn.Uc(unicorn.UC_ARCH_X86, unicorn.UC_MODE_64)
    with open(path, "rb") as file:
        elf = file.read()
    table, = struct.unpack_from("<Q", elf, 32)
    size, count = struct.unpack_from("<HH", elf, 54)
    for i in range(count):
        kind, _, offset, start, _, length, _, _ = struct.unpack_from("<IIQQQQQQ", elf, table + i * size)
        if kind == 1:
            map_pages(uc, start, length)
            uc.mem_write(start, elf[offset:offset + length])

    def unmapped(uc, _access, address, size, _value, _data):
        map_pages(uc, address, size)
        return True

    uc.hook_add(unicorn.UC_HOOK_MEM_UNMAPPED, unmapped)
    return uc


def map_pages(uc, address, size):
    for page in range(address & -PAGE, address + size, PAGE):
        try:
            uc.mem_map(page, PAGE)
            uc.mem_write(page, small(page, PAGE))
        except unicorn.UcError:
            pass  # It is mapped.


def measure(uc, start, count):
    """Seconds that a window takes, the best of twenty runs of many."""
    best = float("inf")
    context = uc.context_save()
    for _ in range(20):
        spent = 0.0
        for _ in range(REPEATS // 20):
            uc.context_restore(context)
            before = time.perf_counter()
            uc.emu_start(start, 0, count=count)
            spent += time.perf_counter() - before
        best = min(best, spent / (REPEATS // 20))
    return best


def main():
    machines, times, failed = {}, {}, {}
    for line in open(sys.argv[1]):
        kind, path, start = line.split()
        uc = machines.setdefault(path, None) or machine(path)
        machines[path] = uc
        for i, register in enumerate(REGISTERS):
            uc.reg_write(register, 0x70000000 + 0x1000 * i)
        uc.reg_write(x86.UC_X86_REG_EFLAGS, 0x246)
        try:
            took = measure(uc, int(start, 16), 16)
            times.setdefault(kind, []).append(took)
        except unicorn.UcError:
            failed[kind] = failed.get(kind, 0) + 1
    for kind, all_of_kind in times.items():
        middle = statistics.median(all_of_kind) * 1e6
        print(f"{kind}: {len(all_of_kind)} windows, the median one takes {middle:.2f} us; "
              f"{failed.get(kind, 0)} could not be run")
    uc = next(iter(machines.values()))
    uc.mem_map(0x10000000, PAGE)
    uc.mem_write(0x10000000, b"\x90" * 16)
    one = measure(uc, 0x10000000, 1)
    print(f"a window of one nop takes {one * 1e6:.2f} us: the cost of a call, Python's part included")


if __name__ == "__main__":
    main()
