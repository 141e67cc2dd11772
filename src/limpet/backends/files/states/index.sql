-- The index of a folder of states, version 1: derived from the journals, which are the truth. It may be deleted at any time.
--
-- What always holds: a row is sure where its values are those of the journal. Before a journal is changed in one of them the
-- row has the new ones, and is not sure; so whoever lists states looks at the journals of all rows that are not, whatever
-- they seem to be. `stamp` is made anew with each change: only who made it, or has the state locked, makes the row sure.
-- Times are seconds since 1970 UTC.

CREATE TABLE states (
    state_id      TEXT    NOT NULL PRIMARY KEY,
    key           INTEGER NOT NULL,
    created_at    REAL    NOT NULL,
    updated_at    REAL    NOT NULL,
    status        TEXT    NOT NULL,
    pipeline_name TEXT    NOT NULL,
    parent        TEXT,
    is_sure       INTEGER NOT NULL,
    stamp         INTEGER NOT NULL
) STRICT;

-- Listings are newest first.
CREATE INDEX states_by_age ON states (created_at, key);
CREATE INDEX states_by_status ON states (status, created_at, key);
CREATE INDEX states_by_pipeline ON states (pipeline_name, created_at, key);
CREATE INDEX states_by_parent ON states (parent, created_at, key) WHERE parent IS NOT NULL;
CREATE INDEX states_not_sure ON states (state_id) WHERE is_sure = 0;

CREATE TABLE tags (
    tag        TEXT    NOT NULL,
    created_at REAL    NOT NULL,
    key        INTEGER NOT NULL,
    state_id   TEXT    NOT NULL,
    PRIMARY KEY (tag, created_at, key, state_id)
) STRICT, WITHOUT ROWID;

CREATE INDEX tags_by_state ON tags (state_id);

-- One row. While the index is made anew it is not whole: states are missing in it, but none that changes meanwhile. `boot`
-- is the start of the machine during which it was last written without waiting for the disk; empty where it never was. If
-- that was another start than this one, changes may be missing.
CREATE TABLE identity (is_whole INTEGER NOT NULL, boot TEXT NOT NULL) STRICT;

INSERT INTO identity VALUES (0, '');

PRAGMA application_id = 0x484F4C49;
PRAGMA user_version = 1;
