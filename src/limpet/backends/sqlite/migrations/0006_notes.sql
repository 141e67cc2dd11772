-- From version 5 to 6: a store has notes. What stands in it is left as it is.

-- Small texts that belong to the store as a whole, such as when it was last cleaned up.
CREATE TABLE notes (
    name TEXT NOT NULL PRIMARY KEY,
    body TEXT NOT NULL
) STRICT, WITHOUT ROWID;

PRAGMA user_version = 6;
