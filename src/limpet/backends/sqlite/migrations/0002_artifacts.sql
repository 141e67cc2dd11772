-- From version 1 to 2: the store gets an id of its own, and room for artifacts. What stands in it is left as it is.

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

PRAGMA user_version = 2;
