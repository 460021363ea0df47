-- Plain names for tables and columns, and for a status and two kinds of jobs.

ALTER TABLE lesson RENAME TO inbox_item;
ALTER TABLE candidate RENAME COLUMN lesson_id TO inbox_item_id;
ALTER TABLE word_tally RENAME TO keyword_total;
ALTER TABLE word_census RENAME TO common_word_run;
ALTER TABLE hidden_call RENAME TO builtin_call;
ALTER TABLE association RENAME TO memory_link;
ALTER TABLE memory_text RENAME TO memory_past_text;

-- The scope owner of a memory: the workspace, user, project, agent or thread of its scope.
ALTER TABLE memory_word RENAME COLUMN place TO owner_id;
ALTER TABLE memory_terms RENAME COLUMN place TO owner_id;
ALTER TABLE keyword_total RENAME COLUMN place TO owner_id;
ALTER TABLE common_word RENAME COLUMN place TO owner_id;
-- The digest of the conversation up to the message that the memories were added to.
ALTER TABLE injection RENAME COLUMN place TO conversation_digest;

ALTER INDEX memory_beside RENAME TO memory_neighbour;
ALTER INDEX memory_told RENAME TO memory_standing;
ALTER FUNCTION copy_sight_to_vector() RENAME TO copy_visibility_to_vector;
ALTER TRIGGER memory_copies_sight_to_vector ON memory
    RENAME TO memory_copies_visibility_to_vector;

ALTER TABLE job DROP CONSTRAINT job_status_check;
UPDATE job SET status = 'failed' WHERE status = 'buried';
ALTER TABLE job ADD CONSTRAINT job_status_check
    CHECK (status IN ('pending', 'running', 'done', 'failed'));
UPDATE job SET kind = 'fill_vectors' WHERE kind = 'tend_vectors';
UPDATE job SET kind = 'decay' WHERE kind = 'wear';

-- Constraints, indexes, sequences and policies are named after their table.
DO $$
DECLARE
    renamed record;
    found record;
BEGIN
    FOR renamed IN
        SELECT * FROM (VALUES
            ('lesson', 'inbox_item'), ('word_tally', 'keyword_total'),
            ('word_census', 'common_word_run'), ('hidden_call', 'builtin_call'),
            ('association', 'memory_link'), ('memory_text', 'memory_past_text')
        ) AS pair (old_name, new_name)
    LOOP
        FOR found IN
            SELECT conrelid::regclass AS owner, conname AS name FROM pg_constraint
            WHERE connamespace = current_schema()::regnamespace
                AND contype <> 'n' AND conname LIKE '%' || renamed.old_name || '%'
        LOOP
            EXECUTE format('ALTER TABLE %s RENAME CONSTRAINT %I TO %I', found.owner, found.name,
                replace(found.name, renamed.old_name, renamed.new_name));
        END LOOP;
        FOR found IN
            SELECT relname AS name, relkind FROM pg_class
            WHERE relnamespace = current_schema()::regnamespace
                AND relkind IN ('i', 'S') AND relname LIKE '%' || renamed.old_name || '%'
        LOOP
            EXECUTE format('ALTER %s %I RENAME TO %I',
                CASE found.relkind WHEN 'i' THEN 'INDEX' ELSE 'SEQUENCE' END, found.name,
                replace(found.name, renamed.old_name, renamed.new_name));
        END LOOP;
        EXECUTE format('ALTER POLICY %I ON %I RENAME TO %I',
            renamed.old_name || '_of_workspace', renamed.new_name,
            renamed.new_name || '_of_workspace');
    END LOOP;
END
$$;
ALTER INDEX keyword_total_place RENAME TO keyword_total_owner;
