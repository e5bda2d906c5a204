"""What callgrind counted in one run: instructions, and calls of the allocator."""
import re

ALLOCATES = {"malloc", "calloc", "realloc", "aligned_alloc", "posix_memalign"}


def counts(out):
    """The instructions and the allocations in a file of callgrind, which names a function once and
    then by its number."""
    instructions, allocations, names, callee = 0, 0, {}, ""
    for line in open(out):
        if line.startswith(("fn=", "cfn=")):
            number, name = re.match(r"c?fn=\((\d+)\)(?: (.*))?", line).groups()
            callee = names.setdefault(number, name)
        elif line.startswith("calls=") and callee in ALLOCATES:
            allocations += int(line[len("calls="):].split()[0])
        elif line.startswith("totals: "):
            instructions = int(line.split()[1])
    return instructions, allocations
