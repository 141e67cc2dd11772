-- From version 3 to 4: a header has a checksum, and says where its journal ended. Those that stand get both with their next
-- change. No record is touched.

ALTER TABLE states ADD COLUMN end_seq INTEGER;
ALTER TABLE states ADD COLUMN end_link INTEGER;
ALTER TABLE states ADD COLUMN checksum INTEGER;

DROP VIEW headers;

CREATE VIEW headers AS
SELECT key, fence, lease_until, holder, state_id, status, created_at, updated_at, metadata, agent, version,
       coalesce((SELECT max(seq) FROM records WHERE records.state = states.key),
                (SELECT max(first) - 1 FROM spans WHERE spans.state = states.key), 0) AS position,
       timeline, bases, pipeline_name, parent, end_seq, end_link, checksum
FROM states;

PRAGMA user_version = 4;
