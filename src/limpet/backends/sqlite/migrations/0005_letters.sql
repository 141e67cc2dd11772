-- From version 4 to 5: states have inboxes. What stands in the store is left as it is.

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

PRAGMA user_version = 5;
