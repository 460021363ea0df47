-- How rare a word is, is counted over what its reader may see: everybody's memories, their own and
-- those of their projects. Every posting has its place, which is what the memory's scope is of, and
-- so have the tallies: a search reads no posting of anybody else, and nothing it answers tells
-- whether somebody else's memory has a word. It also need not look at every match to see whose it
-- is before it takes the best.

ALTER TABLE memory_terms ADD COLUMN place uuid;
-- What has a scope of nothing is nobody's: it has a place of its own.
UPDATE memory_terms i SET place = coalesce(
    CASE m.scope
        WHEN 'global' THEN m.user_id
        WHEN 'project' THEN m.project_id
        WHEN 'agent' THEN m.agent_id
        WHEN 'thread' THEN m.thread_id
        ELSE m.workspace_id
    END, m.id)
FROM memory m
WHERE m.workspace_id = i.workspace_id AND m.id = i.memory_id;
ALTER TABLE memory_terms ALTER COLUMN place SET NOT NULL;

-- Written anew rather than changed row by row, which would leave it twice as large.
ALTER TABLE memory_word DROP CONSTRAINT memory_word_pkey;
ALTER TABLE memory_word RENAME TO placeless_word;
DO $$
BEGIN
    FOR part IN 0..15 LOOP
        EXECUTE format('ALTER TABLE memory_word_%s RENAME TO placeless_word_%s', part, part);
    END LOOP;
END
$$;

CREATE TABLE memory_word (
    workspace_id uuid NOT NULL,
    term text NOT NULL,
    place uuid NOT NULL,
    memory_id uuid NOT NULL,
    frequency integer NOT NULL,
    length integer NOT NULL
) PARTITION BY HASH (workspace_id);
DO $$
DECLARE
    name text;
BEGIN
    FOR part IN 0..15 LOOP
        EXECUTE format(
            'CREATE TABLE memory_word_%s PARTITION OF memory_word '
            'FOR VALUES WITH (MODULUS 16, REMAINDER %s)', part, part);
    END LOOP;
    FOR name IN
        SELECT relid::regclass::text FROM pg_partition_tree('memory_word')
    LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', name);
        EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', name);
        EXECUTE format(
            'CREATE POLICY %I ON %I USING ('
            'workspace_id = (SELECT NULLIF(current_setting(''recollect.workspace'', true), '''')::uuid) '
            'OR (SELECT current_setting(''recollect.reach'', true)) = ''everywhere'')',
            name || '_of_workspace', name);
    END LOOP;
END
$$;
INSERT INTO memory_word (workspace_id, term, place, memory_id, frequency, length)
SELECT w.workspace_id, w.term, i.place, w.memory_id, w.frequency, w.length
FROM placeless_word w
JOIN memory_terms i ON i.workspace_id = w.workspace_id AND i.memory_id = w.memory_id;
ALTER TABLE memory_word
    ADD PRIMARY KEY (workspace_id, term, place, memory_id) INCLUDE (frequency, length);
DROP TABLE placeless_word;

DELETE FROM word_tally;
ALTER TABLE word_tally ADD COLUMN place uuid NOT NULL;
INSERT INTO word_tally (workspace_id, place, documents, length)
SELECT workspace_id, place, count(*), sum(length)
FROM memory_terms
GROUP BY workspace_id, place;

-- Counted again for the workspaces that were, as the job does it.
DELETE FROM common_word;
ALTER TABLE common_word DROP CONSTRAINT common_word_pkey;
ALTER TABLE common_word ADD COLUMN place uuid NOT NULL;
ALTER TABLE common_word ADD PRIMARY KEY (workspace_id, term, place);
INSERT INTO common_word (workspace_id, term, place, memories)
SELECT workspace_id, term, place, count(*)
FROM memory_word
WHERE workspace_id IN (SELECT workspace_id FROM word_census)
GROUP BY workspace_id, term, place
HAVING count(*) >= 1000;

-- It told whether the best matches might be somebody else's.
DROP INDEX memory_restricted;
