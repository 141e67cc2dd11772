-- Every statement of the index. A line `-- name: xyz` opens one; the comment under it says what it does and why so.

-- name: begin
-- Takes the write lock at once: a transaction that read first could no longer wait for another writer.
BEGIN IMMEDIATE;

-- name: commit
-- Ends a transaction.
COMMIT;

-- name: rollback
-- Gives a transaction up.
ROLLBACK;

-- name: put_state
-- A row with the values that a state has, or is about to have.
INSERT OR REPLACE INTO states (state_id, key, created_at, updated_at, status, pipeline_name, parent, is_sure, stamp)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: put_new_state
-- The same, where none stands: whoever changed the state meanwhile knows better.
INSERT OR IGNORE INTO states (state_id, key, created_at, updated_at, status, pipeline_name, parent, is_sure, stamp)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: put_tag
-- A tag of a state; one that a state has twice is one row.
INSERT OR IGNORE INTO tags (tag, created_at, key, state_id) VALUES (?, ?, ?, ?);

-- name: delete_tags
-- Before the tags of a state are put anew, and with its row.
DELETE FROM tags WHERE state_id = ?;

-- name: delete_state
-- A state that is gone.
DELETE FROM states WHERE state_id = ?;

-- name: delete_stale
-- A row that was sure and has no folder, unless a new state has taken the id since. Tags without a row are never listed.
DELETE FROM states WHERE state_id = ? AND key = ? AND is_sure = 1;

-- name: make_sure
-- The journal now says what the row says, unless somebody has changed the row since.
UPDATE states SET is_sure = 1 WHERE state_id = ? AND stamp = ?;

-- name: list_unsure
-- The states whose journals have to be looked at.
SELECT state_id FROM states WHERE is_sure = 0;

-- name: list_all
-- Every row, for a comparison with the folders.
SELECT state_id, key, status, is_sure FROM states;

-- name: find_whole
-- Whether every state has a row.
SELECT is_whole FROM identity;

-- name: make_whole
-- Every state has a row.
UPDATE identity SET is_whole = 1;

-- name: find_boot
-- During which start of the machine the index was written without waiting for the disk.
SELECT boot FROM identity;

-- name: note_boot
-- Before it is written so.
UPDATE identity SET boot = ?;

-- name: list_newest
-- States behind a place in the listing, the newest first.
SELECT created_at, key, state_id FROM states
WHERE (created_at, key) < (:created_at, :key) AND is_sure = 1
ORDER BY created_at DESC, key DESC LIMIT :limit;

-- name: list_by_status
-- The same of one status. The plus keeps SQLite from choosing another index.
SELECT created_at, key, state_id FROM states
WHERE status = :status AND (created_at, key) < (:created_at, :key) AND +is_sure = 1
ORDER BY created_at DESC, key DESC LIMIT :limit;

-- name: list_by_pipeline
-- The same of one pipeline, and of one status if that is given.
SELECT created_at, key, state_id FROM states
WHERE pipeline_name = :pipeline_name AND (created_at, key) < (:created_at, :key) AND +is_sure = 1
    AND (:status IS NULL OR +status = :status)
ORDER BY created_at DESC, key DESC LIMIT :limit;

-- name: list_by_parent
-- The same of one parent; whatever else is asked for narrows it down.
SELECT created_at, key, state_id FROM states
WHERE parent = :parent AND (created_at, key) < (:created_at, :key) AND +is_sure = 1
    AND (:status IS NULL OR +status = :status) AND (:pipeline_name IS NULL OR +pipeline_name = :pipeline_name)
ORDER BY created_at DESC, key DESC LIMIT :limit;

-- name: list_by_tag
-- The same with one tag. Further tags are looked for in the headers.
SELECT tags.created_at, tags.key, tags.state_id
FROM tags CROSS JOIN states ON states.state_id = tags.state_id
WHERE tag = :tag AND (tags.created_at, tags.key) < (:created_at, :key) AND is_sure = 1
    AND (:status IS NULL OR status = :status) AND (:pipeline_name IS NULL OR pipeline_name = :pipeline_name)
    AND (:parent IS NULL OR parent = :parent)
ORDER BY tags.created_at DESC, tags.key DESC LIMIT :limit;
