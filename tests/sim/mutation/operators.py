"""Random operator mutants: what can be changed in a C++ file, one token or statement at a time.

A lexer, not a parser. It relies on clang-format's spacing (binary operators have blanks on both
sides, template brackets and references have not), and a change that does not compile costs a
compilation and nothing else. Only bodies of functions and initialiser lists of constructors are
changed; no comments, strings, preprocessor lines, QUIRE_CHECKs, constexpr constants or increments
in the head of a `for`.
"""

import bisect
import collections
import hashlib
import os
import re

# A mutant replaces [begin, end) of the file's text by `new`. Its key stays the same when other
# lines change: file, the line as it is, the change, and which of several equal ones it is.
Mutant = collections.namedtuple("Mutant", "key file line begin end new what")
Token = collections.namedtuple("Token", "kind text begin end")

FOLDERS = ("paged_kv", "scheduler")
# What the simulator does not drive, or what only checks and tells.
SKIPPED_FILES = {
    "paged_kv/kv_storage.cc", "paged_kv/kv_storage.h",  # bytes; kv_storage_test
    "paged_kv/kv_layout.cc", "paged_kv/kv_layout.h",    # the shape of a block; capacity_test
    "scheduler/invariants.cc",                          # checks
}
SKIPPED_FUNCTIONS = {
    # Checks and texts.
    "CheckInvariants", "CheckNode", "CheckCounts", "Dump", "Describe", "DescribeEnded",
    "EndReasonName", "SequenceName",
    # Bytes, for operators and their messages: capacity_test.
    "KvBytesPerToken", "KvBytes", "PlanKvCapacity", "BytesText", "LongestSequence",
    # Only tests of the cache alone call it.
}
SWAPS = {
    "<": ("<=",), "<=": ("<",), ">": (">=",), ">=": (">",), "==": ("!=",), "!=": ("==",),
    "+": ("-",), "-": ("+",), "*": ("/",), "/": ("*",), "%": ("/",),
    "&&": ("||",), "||": ("&&",),
    "+=": ("-=",), "-=": ("+=",), "++": ("--",), "--": ("++",), "&=": ("|=",), "|=": ("&=",),
}
UNARY_OR_BINARY = {"+", "-", "*", "&", "&&", "<", ">"}
STATEMENT_WORDS = {"if", "for", "while", "do", "switch", "case", "default", "else", "const", "auto",
                   "static", "using", "typedef", "constexpr", "return", "break", "continue",
                   "struct", "class", "public", "private", "QUIRE_CHECK"}
ASSIGNMENTS = {"=", "+=", "-=", "&=", "|="}

LEXER = re.compile(
    r"(?P<comment>//[^\n]*|/\*.*?\*/)"
    r"|(?P<directive>^[ \t]*\#(?:[^\n]*\\\n)*[^\n]*)"
    r"|(?P<string>\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])+')"
    r"|(?P<number>\d[\w.']*)"
    r"|(?P<name>[A-Za-z_]\w*)"
    r"|(?P<operator>->|::|\+\+|--|<<|<=|>=|==|!=|&&|\|\||[-+*/%&|^]=|[-+*/%&|^!<>=?:;,.(){}\[\]~])"
    r"|(?P<blank>\s+)", re.S | re.M)


def tokens_of(text):
    """Tokens without comments, blanks and preprocessor lines."""
    found, at = [], 0
    while at < len(text):
        match = LEXER.match(text, at)
        if not match:
            raise ValueError(f"no token: {text[at:at + 20]!r}")
        if match.lastgroup not in ("comment", "directive", "blank"):
            found.append(Token(match.lastgroup, match.group(), at, match.end()))
        at = match.end()
    return found


def closing(tokens, opening):
    """The index of the bracket that closes the one at `opening`."""
    pairs = {"(": ")", "{": "}", "[": "]"}
    begin, end, depth = tokens[opening].text, pairs[tokens[opening].text], 0
    for i in range(opening, len(tokens)):
        depth += (tokens[i].text == begin) - (tokens[i].text == end)
        if depth == 0:
            return i
    raise ValueError("a bracket is not closed")


def head_end(tokens, at):
    """Where the declaration at `at` has its `;` or its body's `{`; and where the initialisers of a
    constructor begin, or None."""
    initialisers, i = None, at
    while tokens[i].text != ";":
        text = tokens[i].text
        if text == "{":
            is_initialiser = initialisers is not None and tokens[i - 1].kind == "name"
            if not is_initialiser:
                break
            i = closing(tokens, i)
        elif text in ("(", "["):
            i = closing(tokens, i)
        elif text == ":" and tokens[i - 1].text == ")":
            initialisers = i + 1
        i += 1
    return i, initialisers


def code_ranges(tokens):
    """(begin, body, end) of tokens that are code: initialisers from `begin`, a body from `body`."""
    ranges, i = [], 0
    while i < len(tokens):
        if tokens[i].text in ("}", ";") or (
                tokens[i].text in ("public", "private") and tokens[i + 1].text == ":"):
            i += 1
            continue
        end, initialisers = head_end(tokens, i)
        head = tokens[i:end]
        words = {token.text for token in head}
        if tokens[end].text == ";":
            i = end + 1
        elif "(" in words and "=" not in words - {"operator"} or "operator" in words:
            body_end = closing(tokens, end)
            name = next((head[k - 1].text for k in range(1, len(head)) if head[k].text == "("), "")
            if name not in SKIPPED_FUNCTIONS:
                ranges.append((initialisers or end, end, body_end))
            i = body_end + 1
        elif words & {"namespace", "class", "struct"} and "enum" not in words:
            i = end + 1
        else:
            i = closing(tokens, end) + 1
    return ranges


def skipped(tokens, begin, end):
    """Indices of tokens in checks, in constants, and in what a `for` does at the end of a turn; and
    of all tokens in the head of a `for`."""
    indices, heads, i = set(), set(), begin
    while i < end:
        text = tokens[i].text
        stop = i
        if text == "QUIRE_CHECK":
            stop = closing(tokens, i + 1) + 1
        elif text in ("constexpr", "static_assert"):
            while tokens[stop].text != ";":
                stop += 1
        elif text == "for" and tokens[i + 1].text == "(":
            stop = closing(tokens, i + 1)
            semicolons = [k for k in range(i, stop) if tokens[k].text == ";"]
            if len(semicolons) >= 2:
                indices.update(range(semicolons[-1], stop))
                heads.update(range(i, stop))
            stop = i
        indices.update(range(i, stop))
        i = max(i + 1, stop)
    return indices, heads


def is_binary(text, token):
    """By clang-format's blanks on both sides."""
    return text[token.begin - 1] in " \n" and text[token.end] in " \n"


def changes_of_token(text, tokens, i):
    """(begin, end, new, what) for a change of the token at `i`."""
    token, before = tokens[i], tokens[i - 1]
    after = tokens[i + 1] if i + 1 < len(tokens) else token
    if token.kind == "operator" and token.text in SWAPS:
        if token.text in UNARY_OR_BINARY and not is_binary(text, token):
            return
        for new in SWAPS[token.text]:
            yield token.begin, token.end, new, f"{token.text} -> {new}"
        if token.text in ("+", "-") and after.text == "1":
            yield token.begin, after.end, "", f"{token.text} 1 removed"
    elif token.text == "!" and before.text != "operator":
        yield token.begin, token.end, "", "! removed"
    elif token.kind == "number" and re.fullmatch(r"\d+", token.text):
        value = int(token.text)
        for new in {0: (1,), 1: (0, 2)}.get(value, (value + 1,)):
            yield token.begin, token.end, str(new), f"{value} -> {new}"
    elif token.text in ("min", "max") and before.text == "::" and after.text in ("(", "<"):
        new = "max" if token.text == "min" else "min"
        yield token.begin, token.end, new, f"{token.text} -> {new}"
    elif token.text in ("true", "false"):
        new = "false" if token.text == "true" else "true"
        yield token.begin, token.end, new, f"{token.text} -> {new}"
    elif token.text in ("if", "while") and after.text == "(":
        stop = closing(tokens, i + 1)
        begin = max([k for k in range(i + 1, stop) if tokens[k].text == ";"], default=i + 1)
        inside = text[tokens[begin].end:tokens[stop].begin]
        yield tokens[begin].end, tokens[stop].begin, f" !({inside})", f"{token.text} (!(...))"


def is_declaration(tokens, begin, end):
    """`Type name = ...`, `Type name(...)`, `Type name;`."""
    for k in range(begin, end):
        if tokens[k].text in ASSIGNMENTS or tokens[k].text in ("(", "["):
            break
        follows = tokens[k + 1].kind == "name"
        if follows and (tokens[k].kind == "name" or
                        (tokens[k].text in (">", "*", "&") and k > begin)):
            return True
    return False


def deleted_statement(text, tokens, i):
    """(begin, end, new, what) where a statement begins at `i` that can be left out."""
    before = tokens[i - 1].text
    is_guarded = before in (")", "else")  # the only statement of an if
    if before not in (";", "{", "}", ")", "else") or before == ")" and not follows_if(tokens, i):
        return
    first = tokens[i]
    stop, end = i, None
    while stop < len(tokens) and tokens[stop].text not in (";", "}"):
        if tokens[stop].text in ("(", "[", "{"):
            stop = closing(tokens, stop)
        stop += 1
    if tokens[stop].text != ";":
        return
    end = tokens[stop].end
    words = " ".join(text[first.begin:end].split())
    if first.text in ("break", "continue") or first.text == "return" and (
            is_guarded or tokens[i + 1].text == ";"):
        yield first.begin, end, ";", f"deleted: {words}"
    elif first.text in STATEMENT_WORDS or is_declaration(tokens, i, stop):
        return
    elif first.kind == "name" or first.text in ("++", "--", "*", "("):
        yield first.begin, end, ";", f"deleted: {words}"


def follows_if(tokens, i):
    """The `)` before `i` closes the head of an if, for or while."""
    depth, k = 0, i - 1
    while k >= 0:
        depth += (tokens[k].text == ")") - (tokens[k].text == "(")
        if depth == 0:
            return tokens[k - 1].text in ("if", "for", "while")
        k -= 1
    return False


def mutants_of(path, text):
    """All mutants of a file, in its order."""
    tokens = tokens_of(text)
    starts = [0] + [m.end() for m in re.finditer("\n", text)]
    lines = text.split("\n")
    seen = collections.Counter()
    found = []
    for begin, body, end in code_ranges(tokens):
        leave, heads = skipped(tokens, begin, end)
        for i in range(begin, end):
            if i in leave:
                continue
            changes = list(changes_of_token(text, tokens, i))
            if i > body and i not in heads:
                changes += deleted_statement(text, tokens, i)
            for first, last, new, what in changes:
                number = bisect.bisect_right(starts, first)
                name = f"{path}: {lines[number - 1].strip()}: {what}"
                seen[name] += 1
                key = name if seen[name] == 1 else f"{name} #{seen[name]}"
                found.append(Mutant(key, path, number, first, last, new, what))
    return found


def apply(mutant, text):
    """The file's text with the mutant in it."""
    return text[:mutant.begin] + mutant.new + text[mutant.end:]


def rank(seed, key):
    """A number that depends on the seed and the key alone."""
    return hashlib.sha256(f"{seed} {key}".encode()).hexdigest()


def in_drawing_order(mutants, seed):
    """The file's mutants in the order in which they are tried: each line once before any twice."""
    by_line = collections.defaultdict(list)
    for mutant in sorted(mutants, key=lambda m: rank(seed, m.key)):
        by_line[mutant.line].append(mutant)
    rounds = [(turn, rank(seed, mutant.key), mutant)
              for line in by_line.values() for turn, mutant in enumerate(line)]
    return [mutant for _, _, mutant in sorted(rounds, key=lambda r: r[:2])]


def drawn(root, count, seed):
    """{file: (how many, its mutants in drawing order)}: `count` in all, spread by the number of
    lines that have mutants. One that does not compile is replaced by the next of its file."""
    orders = {}
    for folder in FOLDERS:
        for name in sorted(os.listdir(os.path.join(root, folder))):
            path = f"{folder}/{name}"
            if path in SKIPPED_FILES or not name.endswith((".cc", ".h")):
                continue
            with open(os.path.join(root, path), encoding="utf-8") as source:
                mutants = mutants_of(path, source.read())
            if mutants:
                orders[path] = in_drawing_order(mutants, seed)
    size = {path: len({m.line for m in order}) for path, order in orders.items()}
    exact = {path: count * size[path] / sum(size.values()) for path in orders}
    share = {path: int(exact[path]) for path in orders}
    for path in sorted(orders, key=lambda p: share[p] - exact[p])[:count - sum(share.values())]:
        share[path] += 1
    return {path: (share[path], orders[path]) for path in orders}
