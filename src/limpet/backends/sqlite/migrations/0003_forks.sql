-- From version 2 to 3: states may share the records of others, and are found by their parent. No record is touched.

ALTER TABLE states ADD COLUMN parent TEXT;
ALTER TABLE states ADD COLUMN timeline INTEGER NOT NULL DEFAULT 0;
ALTER TABLE states ADD COLUMN bases TEXT;

-- Metadata that is damaged is left for whoever reads that state; it must not keep the others from being opened. CASE,
-- because the terms of AND are evaluated in any order.
UPDATE states SET parent = metadata ->> '$.parent_state_id'
WHERE CASE WHEN json_valid(metadata) THEN json_type(metadata, '$.parent_state_id') = 'text' END;

CREATE INDEX states_by_parent ON states (parent, created_at) WHERE parent IS NOT NULL;

-- Of forks only: the records `first` to `last` of `state` are those rows of `records` whose `state` is `source`.
CREATE TABLE spans (
    state  INTEGER NOT NULL,
    first  INTEGER NOT NULL,
    last   INTEGER NOT NULL,
    source INTEGER NOT NULL,
    PRIMARY KEY (state, first)
) STRICT, WITHOUT ROWID;

CREATE INDEX spans_by_source ON spans (source, last);

DROP VIEW headers;

CREATE VIEW headers AS
SELECT key, fence, lease_until, holder, state_id, status, created_at, updated_at, metadata, agent, version,
       coalesce((SELECT max(seq) FROM records WHERE records.state = states.key),
                (SELECT max(first) - 1 FROM spans WHERE spans.state = states.key), 0) AS position,
       timeline, bases, pipeline_name, parent
FROM states;

PRAGMA user_version = 3;
