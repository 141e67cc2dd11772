"""The format of a folder of states, version 1, and how things are named in it. Touches no file.

Folders have mode 0700 and files 0600. Every line, and every ``.json`` file, is as ``limpet.lines`` makes it: JSON
with a checksum of its own, begun with the id of the state (or with "store"), and that of the line before it.

    format                         ``limpet states 1`` and a line end
    store.json                     the id of the store, and which keys may have been used: those below a number
    store.copy.json                the same, written first: either of the two may be damaged without loss
    lock                           who creates, forks or deletes a state, or replaces a note, has it locked (flock); the
                                   next key, as of this start of the machine
    last.json                      derived: the state that was last created or finished
    index.db                       derived: an SQLite file by which states are listed
    index.lock                     who makes that anew has it locked (flock)
    rewriting.json                 only while records are rewritten: which files are to be moved where
    states/<state id>/             one folder for each state
        journal-000000001.jsonl    a segment of the journal, named after the first record that it may hold
        journal-000000312.jsonl.zst  a closed segment, compressed (.gz for gzip): exactly the same lines
        header.json                derived: the state as of a line of the newest segment
        lease.json                 until when the newest lease lasts
        wish.json                  what somebody asks of the holder of a lease, which it names by its fence
        lock                       who writes has it locked (flock). It has no content; it grows by one byte with each
                                   segment that is begun, and by MOVE whenever files are moved elsewhere or replaced
        letters/<number>.<hash>.json  a letter of its inbox; the hash is the first 32 digits of the SHA-256 of its name
        forks/<key>                up to which number the state of that key shares the records of this one
    deleted/<key>/                 the same of a deleted state whose records are still shared
    letters/count                  who delivers or discards a letter has it locked (flock). It has no content; its
                                   length is the greatest number that a letter was given
    letters/<n>/<number>.<hash>.<state id>  empty: the notice of a letter; n is its number divided by 1000
    notes/<hash>.json              a note of the store; the hash is the first 32 digits of the SHA-256 of its name
    artifacts/                     a folder of artifacts, with a format of its own
    tmp/                           what is being written, or is being removed

The lines of a journal, in the order in which they were committed:

    {"header": {…}}                the whole header, with key, bases, fence and holder: the first line of every segment,
                                   and wherever a damaged header was mended
    {"lease": {…}}                 a lease was granted
    {"update": {…}}                the header changed, or the lease was given back
    {"seq": 12, …}                 a record, as ``lines.content_of`` has it

What always holds:
  * A journal is the truth for the header, the records and the fences of its state. Whatever is called derived may be
    missing, old or damaged at any time, and is made anew.
  * The lines of one append are one commit, written at once; ``left`` says how many of them follow. Each line names the
    sum of the one before, through all segments. A commit lies in one segment.
  * A folder in ``states`` is made whole in ``tmp`` and moved there: two states of one id never share a folder.
  * Only who has the lock of a state writes its folder, but for ``forks``, which needs that of the store, and for
    ``letters``, which needs that of the letters. The lock of the store is taken before those of states, and that of the
    letters behind them.
  * A number is taken before the notice of its letter stands, the notice stands before the letter, and goes after it.
    So letters are seen in the order of their numbers. A notice without a letter counts for nothing.
  * A key is never used twice: the bound in ``store.json`` is durable before a key below it is used. The next key is
    believed only if this process, or another one since the machine was started, has written it.
  * The note of a fork stands in the folders of all whose records it shares before the fork does, and goes after it.
  * Where a lease ends is only in ``lease.json``; without it the lease has run out. Fences tell who may write.
  * A wish is for the lease with its fence and for no other, and is removed when that ends. Where it is missing or
    damaged there is none.
  * A note is replaced in one step, by who has the lock of the store. One that is damaged counts as none.
  * Before a journal is changed in what states are listed by, the new values stand in the index, marked as not sure.

What is true after a crash: a commit is there whole or not at all. What was acknowledged is there after the death of the
process; after the death of the machine too with ``synchronous="full"``. A journal may end inside a commit: readers do
not look at that part, and the next writer cuts it off. A plain segment counts where a compressed one of the same name
lies beside it. A letter is there whole or not at all; a file of it that ends with ``.new`` counts for nothing, and is
removed by the next who delivers there. Where ``rewriting.json`` stands, the moves are finished by whoever meets it.
"""

from __future__ import annotations

import hashlib
import re
from functools import lru_cache

import msgspec

from limpet.errors import InvalidStateId
from limpet.model import checked_state_id

VERSION = 1
FORMAT = b"limpet states %d\n" % VERSION
FORMAT_LINE = re.compile(rb"limpet states ([0-9]{1,9})\n")

STORE_FILE = "store.json"
STORE_COPY = "store.copy.json"
LAST_FILE = "last.json"
INDEX_FILE = "index.db"
INDEX_LOCK = "index.lock"
REWRITING_FILE = "rewriting.json"
HEADER_FILE = "header.json"
LEASE_FILE = "lease.json"
WISH_FILE = "wish.json"
LOCK_FILE = "lock"
COUNT_FILE = "count"

STATES = "states"
DELETED = "deleted"
FORKS = "forks"
LETTERS = "letters"
NOTES = "notes"
TEMPORARY = "tmp"
ARTIFACTS = "artifacts"

MOVE = 1 << 20

LETTERS_IN_GROUP = 1000
"""So many notices at most are in one folder."""

DIGEST_LENGTH = 32

NEW = ".new"
"""Ends the name of a file that is about to replace another one. What a crash leaves of it is overwritten."""

STORE = "store"
"""The owner of the lines that belong to no state. It is an id that a state may have, in files that no state has."""

SUFFIXES = {"zstd": ".zst", "gzip": ".gz"}
KEY = re.compile(r"[0-9]{1,18}")
_SEGMENT = re.compile(r"journal-([0-9]{9,18})\.jsonl(\.zst|\.gz)?")
_NOTE = re.compile(r"[0-9a-f]{32}\.json")
_LETTER = re.compile(r"([1-9][0-9]{0,17})\.([0-9a-f]{32})\.json")


class Segment(msgspec.Struct, frozen=True):
    """A file of a journal."""

    first: int
    """The number of the first record that it may hold."""
    suffix: str = ""
    """Empty where it is plain."""

    @property
    def name(self) -> str:
        return segment_name(self.first) + self.suffix


def segment_name(first: int) -> str:
    return f"journal-{first:09d}.jsonl"


def segment_of(name: str) -> Segment | None:
    """The segment that a file is; None for any other name."""
    found = _SEGMENT.fullmatch(name)
    if found is None or segment_name(int(found[1])) + (found[2] or "") != name:
        return None
    return Segment(int(found[1]), found[2] or "")


class LetterFile(msgspec.Struct, frozen=True, order=True):
    """A file of an inbox."""

    number: int
    digest: str
    """Stands for the name of the letter."""

    @property
    def name(self) -> str:
        return f"{self.number}.{self.digest}.json"


def letter_file_of(name: str) -> LetterFile | None:
    """The letter that a file is; None for any other name."""
    found = _LETTER.fullmatch(name)
    return None if found is None else LetterFile(int(found[1]), found[2])


def digest_of(name: str) -> str:
    """What stands for the name of a letter or a note in the name of its file."""
    return hashlib.sha256(name.encode()).hexdigest()[:DIGEST_LENGTH]


def note_file(name: str) -> str:
    """The file of the note that has this name."""
    return f"{digest_of(name)}.json"


def is_note_file(name: str) -> bool:
    return _NOTE.fullmatch(name) is not None


@lru_cache(1024)
def is_state_id(name: str) -> bool:
    """Whether a name can be that of a state, and so of its folder. Nothing else ever becomes part of a path."""
    try:
        checked_state_id(name)
    except InvalidStateId:
        return False
    return True
