"""Checks what the compiler and the linker make of sources that are compiled per instruction set.

No weak symbol may be defined by objects of two instruction sets, or by one of them and an ordinary
object: the linker keeps any of them, and a machine without AVX-512 would run AVX-512 code. And no
object may hold instructions that its machines lack.

Usage: isa_objects_test.py libquire_kernels.a
"""

import collections
import re
import subprocess
import sys

ISA_OF_OBJECT = re.compile(r"_(reference|avx2|avx512|avx512vnni|avx512bf16|amx)\.cc\.o$")
WEAK = set("VvWwu")

# What disassembly must not show, by instruction set; "" is for ordinary objects.
ZMM_OR_MASK = re.compile(r"%zmm|%k[0-7]|%[xy]mm(1[6-9]|2[0-9]|3[01])|\{%k")
YMM = re.compile(r"%ymm|\bv[a-z]+\s.*%xmm")
BF16 = re.compile(r"\bv(dpbf16ps|cvtne2?ps2?bf16)")
VNNI = re.compile(r"\bvpdp(busd|wssd)")
TILE = re.compile(r"%tmm|\b(ld|st)tilecfg|\btile(loadd|stored|zero|release)|\btdp[a-z]")
FORBIDDEN = {
    "": [ZMM_OR_MASK, YMM, VNNI, BF16, TILE],
    "reference": [ZMM_OR_MASK, YMM, VNNI, BF16, TILE],
    "avx2": [ZMM_OR_MASK, VNNI, BF16, TILE],
    "avx512": [VNNI, BF16, TILE],
    "avx512vnni": [BF16, TILE],
    "avx512bf16": [TILE],
    "amx": [],
}


def isa_of(member):
    match = ISA_OF_OBJECT.search(member)
    return match.group(1) if match else ""


def output_of(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def shared_weak_symbols(library):
    sets = collections.defaultdict(set)  # symbol -> instruction sets that define it
    for line in output_of("nm", "-A", "--defined-only", library).splitlines():
        place, kind, symbol = re.match(r"(\S+):[0-9a-f]* (\S) (\S+)", line).groups()
        if kind in WEAK:
            sets[symbol].add(isa_of(place.split(":")[-1]))
    return [f"{s}: weak in {sorted(isas)}" for s, isas in sets.items() if len(isas) > 1]


def forbidden_instructions(library):
    faults = []
    member, function = "", ""
    reported = set()
    for line in output_of("objdump", "-d", "--no-show-raw-insn", library).splitlines():
        header = re.match(r"(\S+):\s+file format", line)
        if header:
            member = header.group(1)
            continue
        name = re.match(r"[0-9a-f]+ <(.*)>:", line)
        if name:
            function = name.group(1)
            continue
        for pattern in FORBIDDEN[isa_of(member)]:
            if pattern.search(line) and (member, function) not in reported:
                reported.add((member, function))
                faults.append(f"{member}: {function}: {line.strip()}")
    return faults


def main():
    library = sys.argv[1]
    members = output_of("ar", "t", library).split()
    found = {isa_of(member) for member in members}
    faults = [f"no object for {isa}" for isa in set(FORBIDDEN) - found]
    faults += shared_weak_symbols(library) + forbidden_instructions(library)
    for fault in faults:
        print(fault)
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
