-- The format of a store, schema version 6. The text above the tables is the specification; `store.py` and `artifacts.py`
-- keep it. Files of an older version are brought here by the files in `migrations`, each of which leads to the version that
-- its name begins with; a file made new and one that was migrated have the same tables.
--
-- A store is one SQLite file of 4 KB pages in WAL mode, with `application_id` 0x484F4C44 ("HOLD") and the schema version
-- in `user_version`. Both stand in the file from the transaction that creates the tables, so a file is either empty or
-- a whole store. Times are seconds since 1970 UTC.
--
-- What always holds:
--   * The records of a state are numbered 1, 2, 3 … without a gap; one that is written is changed by `rewrite` alone.
--   * A state without rows in `spans` has all its records under its own key. A fork shares its first ones: its spans cover
--     1, 2, 3 … without a gap or an overlap, one for each state that wrote some of them. The last span is the fork's own:
--     it begins behind what is shared, its `source` is the fork and its `last` the greatest number there is, and it is
--     there before the first record in it. A span names who wrote its records, never a fork that shares them too.
--   * `bases` is NULL, or repeats the spans of a fork but its own, with the ids that the sources had: a list of
--     {"state_id": …, "last": …}. Neither ever changes, also where a source is deleted and its id is used again.
--   * A deleted state has no row but those of its records that are inside a span; these go with the last such span.
--   * `parent` repeats `parent_state_id` inside `metadata`. `timeline` is the number of a record, or 0.
--   * `end_seq` and `end_link` are where the journal ended when the header was last written: the number of the record, and the
--     first 4 bytes of its body as a number. Both are NULL where that is not known.
--   * `checksum` is the CRC-32 of the JSON list of state_id, status, created_at, updated_at, metadata, agent, version, timeline,
--     bases, pipeline_name, parent, end_seq, end_link, without spaces. It is written with any of them, and is NULL in rows from
--     before it was kept. A row that it does not fit is damaged: it is shown as that, and is not leased.
--   * `fence` only grows, also from a deleted state to a later one of the same id. A record is inserted by a statement
--     that finds the state with the writer's fence, so a holder that has been superseded inserts nothing, whatever it
--     believes.
--   * A lease is free when `holder` is NULL or `lease_until` has come. Giving it back leaves the fence as it is: an
--     append whose acknowledgement was lost can be repeated.
--   * `holder` may have a `wish` beside the fields of the holder: text that another process has left for it. It goes with
--     the holder, and so with the lease; the checksum covers neither.
--   * A letter belongs to the state of its key, and goes with that; anybody may add one. It is never changed: the first one
--     of a name stays until the holder of the state discards it. `number` is never used twice (AUTOINCREMENT), and grows
--     with every letter that is committed.
--   * A note belongs to the store as a whole. It is replaced by whoever has read it, in the transaction that finds it as it
--     was read.
--   * `key` is never used twice (AUTOINCREMENT), so the lease of a deleted state fits no later state.
--   * The rows of `tags` repeat the tags inside `metadata`, with the state's `created_at`, which never changes.
--   * `identity` has one row. Its `store_id` is made with the table, at random, and never changes.
--   * The id of an artifact is the SHA-256 of its content; its body is the content, or one Zstandard frame that holds it.
--     A body is never changed. `put_at` only grows, and is greater than that of anything deleted before the first put.
--   * A pin is written in the transaction that puts what it pins, or puts it again.
--
-- What is true after a crash: every verb is one transaction, and is there whole or not at all. What was acknowledged is
-- there after the death of the process; after the death of the machine too with `synchronous=full`, while with `normal`
-- the newest transactions since the last checkpoint may be missing, always from the end. Something may be there that was
-- never acknowledged: repeating it is harmless.

-- The columns that every append looks at come first and `metadata`, which may be long, comes behind them, so that checking
-- a fence never follows overflow pages. What was added since stands at the end, and is read with `metadata`.
CREATE TABLE states (
    key           INTEGER PRIMARY KEY AUTOINCREMENT,
    fence         INTEGER NOT NULL,
    lease_until   REAL    NOT NULL,
    status        TEXT    NOT NULL,
    created_at    REAL    NOT NULL,
    updated_at    REAL    NOT NULL,
    version       INTEGER NOT NULL,
    state_id      TEXT    NOT NULL UNIQUE,
    pipeline_name TEXT    NOT NULL,
    agent         TEXT,
    holder        TEXT,             -- JSON
    metadata      TEXT    NOT NULL, -- JSON
    parent        TEXT,
    timeline      INTEGER NOT NULL DEFAULT 0,
    bases         TEXT,             -- JSON
    end_seq       INTEGER,
    end_link      INTEGER,
    checksum      INTEGER
) STRICT;

-- Listings are newest first; the key that settles ties is the last column of every index by itself.
CREATE INDEX states_by_age ON states (created_at);
CREATE INDEX states_by_status ON states (status, created_at);
CREATE INDEX states_by_pipeline ON states (pipeline_name, created_at);
CREATE INDEX states_by_parent ON states (parent, created_at) WHERE parent IS NOT NULL;

CREATE TABLE tags (
    tag        TEXT    NOT NULL,
    created_at REAL    NOT NULL,
    state      INTEGER NOT NULL,
    PRIMARY KEY (tag, created_at, state)
) STRICT, WITHOUT ROWID;

CREATE INDEX tags_by_state ON tags (state);

-- With a rowid: bodies are often longer than what a WITHOUT ROWID table stores well, and the appends of many states
-- that commit together fill the same few pages.
CREATE TABLE records (
    state INTEGER NOT NULL,
    seq   INTEGER NOT NULL,
    body  BLOB    NOT NULL,
    UNIQUE (state, seq)
) STRICT;

-- Of forks only: the records `first` to `last` of `state` are those rows of `records` whose `state` is `source`.
CREATE TABLE spans (
    state  INTEGER NOT NULL,
    first  INTEGER NOT NULL,
    last   INTEGER NOT NULL,
    source INTEGER NOT NULL,
    PRIMARY KEY (state, first)
) STRICT, WITHOUT ROWID;

CREATE INDEX spans_by_source ON spans (source, last);

-- What others have left for a state. The body, which may be long, comes last: what has arrived is read without it.
CREATE TABLE letters (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    state  INTEGER NOT NULL,
    at     REAL    NOT NULL,
    name   TEXT    NOT NULL,
    body   BLOB    NOT NULL,
    UNIQUE (state, name)
) STRICT;

CREATE INDEX letters_by_state ON letters (state);

-- Small texts that belong to the store as a whole, such as when it was last cleaned up.
CREATE TABLE notes (
    name TEXT NOT NULL PRIMARY KEY,
    body TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- A state as a listing shows it. `position` is one seek at the end of the state's part of the index, and another one where
-- it has no records of its own.
CREATE VIEW headers AS
SELECT key, fence, lease_until, holder, state_id, status, created_at, updated_at, metadata, agent, version,
       coalesce((SELECT max(seq) FROM records WHERE records.state = states.key),
                (SELECT max(first) - 1 FROM spans WHERE spans.state = states.key), 0) AS position,
       timeline, bases, pipeline_name, parent, end_seq, end_link, checksum
FROM states;

CREATE TABLE identity (
    store_id       TEXT NOT NULL,  -- 32 hexadecimal digits
    deleted_put_at REAL NOT NULL   -- the greatest put_at of all artifacts that were ever deleted
) STRICT;

INSERT INTO identity VALUES (lower(hex(randomblob(16))), 0.0);

-- Without the content, so that putting an artifact again, or listing all, touches none of it.
CREATE TABLE artifacts (
    id            BLOB    NOT NULL PRIMARY KEY,  -- the 32 bytes of the hash
    put_at        REAL    NOT NULL,
    size          INTEGER NOT NULL,              -- of the content, however it is kept
    is_compressed INTEGER NOT NULL,
    body          INTEGER NOT NULL               -- the key of its body
) STRICT, WITHOUT ROWID;

CREATE TABLE artifact_bodies (
    key  INTEGER PRIMARY KEY,
    body BLOB    NOT NULL
) STRICT;

CREATE TABLE pins (
    store_id TEXT    NOT NULL,
    state_id TEXT    NOT NULL,
    fence    INTEGER NOT NULL,
    artifact BLOB    NOT NULL,
    PRIMARY KEY (store_id, state_id, fence, artifact)
) STRICT, WITHOUT ROWID;

-- The stores whose records name artifacts here.
CREATE TABLE stores (
    store_id TEXT NOT NULL PRIMARY KEY,
    name     TEXT NOT NULL
) STRICT, WITHOUT ROWID;

PRAGMA application_id = 0x484F4C44;
PRAGMA user_version = 6;
