-- Every statement of the store. A line `-- name: xyz` opens one; the comment under it says what it does and why so.

-- name: begin
-- Takes the write lock at once: a transaction that read first could no longer wait for another writer.
BEGIN IMMEDIATE;

-- name: commit
-- Ends a transaction; what it wrote is durable when this returns.
COMMIT;

-- name: rollback
-- Gives a transaction up.
ROLLBACK;

-- name: count_tables
-- 0 in a file that is no store yet.
SELECT count(*) FROM sqlite_schema;

-- name: find_odd_schema
-- What kind of thing, and its name: views in the place of tables, tables with computed columns, virtual tables, triggers,
-- and a view of headers other than the one that is given (NULL: whatever it is).
SELECT 'the ' || type, name FROM pragma_table_list
WHERE schema = 'main' AND (type <> 'table' OR NOT strict) AND name IN (
    'states', 'tags', 'records', 'spans', 'letters', 'notes', 'identity', 'artifacts', 'artifact_bodies', 'pins', 'stores'
)
UNION ALL
SELECT 'the computed column ' || columns.name || ' in', tables.name
FROM pragma_table_list AS tables, pragma_table_xinfo(tables.name) AS columns
WHERE tables.schema = 'main' AND tables.type = 'table' AND columns.hidden <> 0
UNION ALL
SELECT 'the ' || type, name FROM sqlite_schema
WHERE type = 'trigger' OR (name = 'headers' AND (type <> 'view' OR sql <> ?1))
LIMIT 1;

-- name: append_record
-- Inserts a record if the state still has the writer's fence. The caller compares the count of changes with the count of
-- rows. It must not look into `records`: SQLite would then collect the selection in a temporary table for every row.
INSERT INTO records (state, seq, body) SELECT key, ?, ? FROM states WHERE key = ? AND fence = ?;

-- name: insert_record
-- Inserts a record of a state whose fence was checked in the same transaction.
INSERT INTO records (state, seq, body) VALUES (?, ?, ?);

-- name: find_fence
-- The newest fence of a state.
SELECT fence FROM states WHERE key = ?;

-- name: find_position
-- The number of the newest record of a state, or 0.
SELECT coalesce(
    (SELECT max(seq) FROM records WHERE state = :key),
    (SELECT max(first) - 1 FROM spans WHERE state = :key),
    0
);

-- name: read_unforked
-- The records behind a position of a state that shares none; nothing of a fork, since its own ones alone would be torn.
-- A limit of -1 is none.
SELECT seq, body FROM records
WHERE state = (
    SELECT key FROM states WHERE state_id = :state_id AND NOT EXISTS (SELECT 1 FROM spans WHERE spans.state = states.key)
) AND seq > :after
ORDER BY seq LIMIT :limit;

-- name: read_fork
-- The records behind a position of a fork, shared ones and its own; nothing of any other state. CROSS JOIN keeps SQLite to
-- walking the spans, and inside each its records: that is the order, so nothing is sorted.
SELECT records.seq, records.body
FROM spans CROSS JOIN records
    ON records.state = spans.source AND records.seq BETWEEN max(spans.first, :after + 1) AND spans.last
WHERE spans.state = (SELECT key FROM states WHERE state_id = :state_id) AND spans.last > :after
ORDER BY spans.first, records.seq LIMIT :limit;

-- name: find_header
-- One state by its id.
SELECT * FROM headers WHERE state_id = ?;

-- name: insert_state
-- A new state, with its first lease. The fence follows from its key, so it is set next.
INSERT INTO states
    (fence, lease_until, holder, state_id, status, created_at, updated_at, metadata, agent, version, timeline, bases,
     pipeline_name, parent, end_seq, end_link, checksum)
VALUES (0, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: set_first_fence
-- Gives a new state the fence of its first lease.
UPDATE states SET fence = ? WHERE key = ?;

-- name: grant_lease
-- Hands a state to a holder under a new fence.
UPDATE states SET fence = ?, holder = ?, lease_until = ? WHERE key = ?;

-- name: renew_lease
-- Prolongs a lease that is still the newest and was not given back.
UPDATE states SET lease_until = ? WHERE key = ? AND fence = ? AND holder IS NOT NULL;

-- name: release_lease
-- Gives a lease back. The fence stays, so that a repeated append is recognised.
UPDATE states SET holder = NULL, lease_until = 0.0 WHERE key = ?;

-- name: leave_wish
-- Writes a holder anew, with a wish beside it, of a state whose lease was looked at in the same transaction.
UPDATE states SET holder = ? WHERE key = ?;

-- name: find_wishes
-- The holders for whom a wish was left, of the states in a JSON list of keys. The text is searched and not taken apart:
-- hardly any holder has one, and JSON that is damaged would fail the whole statement.
SELECT key, fence, holder FROM states WHERE key IN (SELECT value FROM json_each(?)) AND instr(holder, '"wish"');

-- name: find_key
-- The key of a state.
SELECT key FROM states WHERE state_id = ?;

-- name: find_letter
-- The letter of a name.
SELECT number, at, body FROM letters WHERE state = ? AND name = ?;

-- name: insert_letter
-- A letter of a state that was found in the same transaction, and has none of that name.
INSERT INTO letters (state, at, name, body) VALUES (?, ?, ?, ?) RETURNING number;

-- name: list_letters
-- The letters of a state behind a number. Its index has them in their order, so nothing is sorted.
SELECT number, name, body, at FROM letters
WHERE state = (SELECT key FROM states WHERE state_id = ?) AND number > ?
ORDER BY number;

-- name: list_arrivals
-- The letters of all states behind a number. CROSS JOIN keeps SQLite to walking `letters` from there on, which is the order.
SELECT number, state_id FROM letters CROSS JOIN states ON states.key = letters.state
WHERE number > ? ORDER BY number LIMIT ?;

-- name: delete_letter
-- One letter of a state whose fence was checked in the same transaction.
DELETE FROM letters WHERE state = ? AND name = ?;

-- name: delete_letters
-- All letters of a state.
DELETE FROM letters WHERE state = ?;

-- name: find_columns
-- What the checksum of a header covers, and the checksum.
SELECT state_id, status, created_at, updated_at, metadata, agent, version, timeline, bases, pipeline_name, parent,
       end_seq, end_link, checksum
FROM states WHERE key = ?;

-- name: update_header
-- Changes what most often changes of a state, whose fence was checked in the same transaction.
UPDATE states SET status = ?, updated_at = ?, timeline = ?, end_seq = ?, end_link = ?, checksum = ? WHERE key = ?;

-- name: update_metadata
-- Changes the metadata of a state whose fence was checked in the same transaction, and what a mended header has besides.
UPDATE states SET metadata = ?, pipeline_name = ?, parent = ?, agent = ?, version = ?, created_at = ? WHERE key = ?;

-- name: rewrite_record
-- Other bytes for a record of a state whose fence was checked in the same transaction.
UPDATE records SET body = ? WHERE state = ? AND seq = ?;

-- name: check_integrity
-- What SQLite finds wrong with the file, or `ok`.
PRAGMA integrity_check(20);

-- name: count_orphans
-- Records that belong to no state and that no fork shares.
SELECT count(*) FROM records
WHERE NOT EXISTS (SELECT 1 FROM states WHERE states.key = records.state)
  AND NOT EXISTS (
      SELECT 1 FROM spans WHERE spans.source = records.state AND records.seq BETWEEN spans.first AND spans.last
  );

-- name: insert_tag
-- One tag of a state; naming a tag twice is harmless.
INSERT OR IGNORE INTO tags (tag, created_at, state) SELECT ?, created_at, key FROM states WHERE key = ?;

-- name: delete_tags
-- All tags of a state.
DELETE FROM tags WHERE state = ?;

-- name: insert_span
-- Where some records of a fork are, or its own will be.
INSERT INTO spans (state, first, last, source) VALUES (?, ?, ?, ?);

-- name: find_sources
-- The keys under which the records of a fork are, in the order of their numbers; its own is the last. None: it is no fork.
SELECT source FROM spans WHERE state = ? ORDER BY first;

-- name: find_other_sharer
-- A fork that shares records of a state from a number on, and is none of those in a JSON list of keys.
SELECT state FROM spans
WHERE source = :key AND last >= :first AND state <> :key AND state NOT IN (SELECT value FROM json_each(:known)) LIMIT 1;

-- name: delete_spans
-- What a fork shares.
DELETE FROM spans WHERE state = ?;

-- name: delete_unshared
-- Those records of a deleted state that no fork shares any more. Forks share from the beginning, so these are at the end.
DELETE FROM records
WHERE state = :key
  AND seq > (SELECT coalesce(max(last), 0) FROM spans WHERE source = :key)
  AND NOT EXISTS (SELECT 1 FROM states WHERE states.key = :key);

-- name: delete_header
-- The state itself.
DELETE FROM states WHERE key = ?;

-- name: find_place
-- Where a state stands in a listing, if it is there and was created then.
SELECT key FROM states WHERE state_id = ? AND created_at = ?;

-- name: measure_states
-- How many bytes the headers, tags, letters and own records of states take, by a JSON list of their ids. The length of a body is
-- known without reading it.
SELECT state_id, key,
    length(CAST(state_id || pipeline_name || status || metadata AS BLOB))
        + coalesce(length(CAST(agent AS BLOB)), 0) + coalesce(length(CAST(bases AS BLOB)), 0)
        + coalesce((SELECT sum(length(CAST(tag AS BLOB))) FROM tags WHERE tags.state = states.key), 0)
        + coalesce((SELECT sum(length(body)) FROM records WHERE records.state = states.key), 0)
        + coalesce((SELECT sum(length(body)) FROM letters WHERE letters.state = states.key), 0)
FROM states WHERE state_id IN (SELECT value FROM json_each(?));

-- name: measure_shared
-- Of the forks in a JSON list of ids: which records of others each one keeps, and how many bytes these take. None of a
-- state but a fork's own can stand before what is shared of it.
SELECT states.state_id, spans.source, spans.last,
    (SELECT sum(length(body)) FROM records WHERE records.state = spans.source AND records.seq <= spans.last)
FROM states JOIN spans ON spans.state = states.key
WHERE states.state_id IN (SELECT value FROM json_each(?)) AND spans.source <> spans.state
ORDER BY spans.state, spans.first;

-- name: write_back
-- Writes the log back into the file as far as nobody is held up by it.
PRAGMA wal_checkpoint(PASSIVE);

-- name: write_back_wholly
-- The same, and empties the log where nobody else uses it.
PRAGMA wal_checkpoint(TRUNCATE);

-- name: compact
-- Writes the file anew without its free pages. Nobody else can write meanwhile.
VACUUM;

-- name: list_newest
-- The newest states behind a place in the listing, whatever they are.
SELECT * FROM headers WHERE (created_at, key) < (:created_at, :key) ORDER BY created_at DESC, key DESC LIMIT :limit;

-- name: list_by_status
-- The same of one status.
SELECT * FROM headers WHERE status = :status AND (created_at, key) < (:created_at, :key) ORDER BY created_at DESC, key DESC LIMIT :limit;

-- name: list_by_pipeline
-- The same of one pipeline, and of one status where that is asked for.
SELECT * FROM headers
WHERE pipeline_name = :pipeline_name AND (created_at, key) < (:created_at, :key) AND (:status IS NULL OR status = :status)
ORDER BY created_at DESC, key DESC LIMIT :limit;

-- name: list_by_parent
-- The same of one parent, and of what else is asked for; they have every tag of the JSON list `tags`.
SELECT * FROM headers
WHERE parent = :parent AND (created_at, key) < (:created_at, :key)
  AND (:status IS NULL OR status = :status)
  AND (:pipeline_name IS NULL OR pipeline_name = :pipeline_name)
  AND NOT EXISTS (
      SELECT 1 FROM json_each(:tags) AS wanted
      WHERE NOT EXISTS (
          SELECT 1 FROM tags AS other
          WHERE other.tag = wanted.value AND other.created_at = headers.created_at AND other.state = headers.key
      )
  )
ORDER BY created_at DESC, key DESC LIMIT :limit;

-- name: list_by_tag
-- The same of those that have one tag, then every other one of the JSON list `tags`, and what else is asked for. CROSS JOIN
-- keeps SQLite to walking `tags`, which is in the order of the listing.
SELECT headers.* FROM tags AS first CROSS JOIN headers ON headers.key = first.state
WHERE first.tag = :tag AND (first.created_at, first.state) < (:created_at, :key)
  AND (:status IS NULL OR headers.status = :status)
  AND (:pipeline_name IS NULL OR headers.pipeline_name = :pipeline_name)
  AND NOT EXISTS (
      SELECT 1 FROM json_each(:tags) AS wanted
      WHERE NOT EXISTS (
          SELECT 1 FROM tags AS other
          WHERE other.tag = wanted.value AND other.created_at = first.created_at AND other.state = first.state
      )
  )
ORDER BY first.created_at DESC, first.state DESC LIMIT :limit;

-- name: find_store_id
-- What tells this store from all others.
SELECT store_id FROM identity;

-- name: find_deleted_put_at
-- The greatest put_at of all artifacts that were deleted, or 0.
SELECT deleted_put_at FROM identity;

-- name: note_deleted
-- Remembers the put_at of an artifact that is being deleted.
UPDATE identity SET deleted_put_at = max(deleted_put_at, ?);

-- name: find_standing
-- An artifact with what decides whether it has to be put anew. The length of a body is known without reading it.
SELECT artifacts.body, put_at, size, is_compressed, length(artifact_bodies.body)
FROM artifacts LEFT JOIN artifact_bodies ON artifact_bodies.key = artifacts.body
WHERE id = ?;

-- name: find_artifact
-- What is known of an artifact.
SELECT size, put_at FROM artifacts WHERE id = ?;

-- name: read_artifact
-- The content of an artifact, as it is kept.
SELECT size, is_compressed, artifact_bodies.body
FROM artifacts JOIN artifact_bodies ON artifact_bodies.key = artifacts.body
WHERE id = ?;

-- name: list_artifacts
-- The artifacts behind an id, in order.
SELECT id, size, put_at FROM artifacts WHERE id > ? ORDER BY id LIMIT ?;

-- name: insert_body
-- The content of a new artifact; its key is the last rowid.
INSERT INTO artifact_bodies (body) VALUES (?);

-- name: insert_artifact
-- A new artifact, after its body.
INSERT INTO artifacts (id, put_at, size, is_compressed, body) VALUES (?, ?, ?, ?, ?);

-- name: put_again
-- Makes the time of an artifact that is there a later one.
UPDATE artifacts SET put_at = ? WHERE id = ?;

-- name: delete_artifact
-- An artifact whose put_at was checked in the same transaction, after its body.
DELETE FROM artifacts WHERE id = ?;

-- name: delete_body
-- The content of an artifact.
DELETE FROM artifact_bodies WHERE key = ?;

-- name: insert_pin
-- Says whose lease keeps an artifact; saying it twice is harmless.
INSERT OR IGNORE INTO pins (store_id, state_id, fence, artifact) VALUES (?, ?, ?, ?);

-- name: list_pins
-- All pins, with what they pin.
SELECT store_id, state_id, fence, artifact FROM pins;

-- name: delete_pin
-- Forgets all that one lease pins.
DELETE FROM pins WHERE store_id = ? AND state_id = ? AND fence = ?;

-- name: enlist_store
-- Notes that the records of a store name artifacts here; the newest name counts.
INSERT INTO stores (store_id, name) VALUES (?, ?) ON CONFLICT (store_id) DO UPDATE SET name = excluded.name;

-- name: list_stores
-- The enlisted stores.
SELECT store_id, name FROM stores;

-- name: find_note
-- The note of the store that has a name.
SELECT body FROM notes WHERE name = ?;

-- name: put_note
-- Puts a note in the place of one that was looked at in the same transaction.
INSERT INTO notes (name, body) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET body = excluded.body;
