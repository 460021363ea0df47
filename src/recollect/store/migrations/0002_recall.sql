-- Associations between memories, statements that were true for a time, and what recall needs.

CREATE TABLE association (
    workspace_id uuid NOT NULL,
    id uuid NOT NULL,
    source_id uuid NOT NULL,
    target_id uuid NOT NULL,
    relation text NOT NULL CHECK (
        relation IN ('related_to', 'updates', 'contradicts', 'caused_by', 'result_of', 'part_of')),
    weight double precision NOT NULL CHECK (weight BETWEEN 0 AND 1),
    -- Somebody said so; the others were made by likeness and mean less.
    is_authored boolean NOT NULL,
    created_at timestamptz NOT NULL,
    PRIMARY KEY (workspace_id, source_id, target_id, relation),
    FOREIGN KEY (workspace_id, source_id) REFERENCES memory ON DELETE CASCADE,
    FOREIGN KEY (workspace_id, target_id) REFERENCES memory ON DELETE CASCADE,
    CHECK (source_id <> target_id)
);
CREATE INDEX association_target ON association (workspace_id, target_id);

ALTER TABLE association ENABLE ROW LEVEL SECURITY;
ALTER TABLE association FORCE ROW LEVEL SECURITY;
CREATE POLICY association_of_workspace ON association USING (
    workspace_id = (SELECT NULLIF(current_setting('recollect.workspace', true), '')::uuid)
    OR (SELECT current_setting('recollect.reach', true)) = 'everywhere');

-- Beside the vector, as the other columns that searches filter by; and where in its thread a memory
-- stands, for looking at its neighbours.
ALTER TABLE memory_vector ADD COLUMN valid_from timestamptz;
ALTER TABLE memory_vector ADD COLUMN kind text;
ALTER TABLE memory_vector ADD COLUMN created_at timestamptz;
UPDATE memory_vector v
SET valid_from = m.valid_from, kind = m.kind, created_at = m.created_at
FROM memory m
WHERE m.workspace_id = v.workspace_id AND m.id = v.memory_id;

CREATE OR REPLACE FUNCTION copy_to_vector() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE memory_vector
    SET thread_id = NEW.thread_id, subject = NEW.subject, category = NEW.category,
        kind = NEW.kind, tags = NEW.tags, pinned = NEW.pinned, expires_at = NEW.expires_at,
        valid_from = NEW.valid_from, valid_until = NEW.valid_until, deleted_at = NEW.deleted_at
    WHERE workspace_id = NEW.workspace_id AND memory_id = NEW.id;
    RETURN NULL;
END
$$;
DROP TRIGGER memory_copies_to_vector ON memory;
CREATE TRIGGER memory_copies_to_vector AFTER UPDATE ON memory
    FOR EACH ROW WHEN (
        (OLD.thread_id, OLD.subject, OLD.category, OLD.kind, OLD.tags, OLD.pinned, OLD.expires_at,
         OLD.valid_from, OLD.valid_until, OLD.deleted_at)
        IS DISTINCT FROM
        (NEW.thread_id, NEW.subject, NEW.category, NEW.kind, NEW.tags, NEW.pinned, NEW.expires_at,
         NEW.valid_from, NEW.valid_until, NEW.deleted_at)
    )
    EXECUTE FUNCTION copy_to_vector();

-- A vector index for one large workspace, built in the background: a partial one, because an index
-- over all workspaces under a filter finds nearly nothing of a small one.
CREATE TABLE vector_index (
    workspace_id uuid NOT NULL REFERENCES workspace (id),
    generation integer NOT NULL,
    name text NOT NULL,
    is_ready boolean NOT NULL DEFAULT false,
    PRIMARY KEY (workspace_id, generation)
);
ALTER TABLE vector_index ENABLE ROW LEVEL SECURITY;
ALTER TABLE vector_index FORCE ROW LEVEL SECURITY;
CREATE POLICY vector_index_of_workspace ON vector_index USING (
    workspace_id = (SELECT NULLIF(current_setting('recollect.workspace', true), '')::uuid)
    OR (SELECT current_setting('recollect.reach', true)) = 'everywhere');

-- The order of memories in a thread, and the two other ways to browse.
CREATE INDEX memory_thread_order ON memory (workspace_id, thread_id, created_at, id)
    WHERE thread_id IS NOT NULL;
DROP INDEX memory_thread;
CREATE INDEX memory_importance ON memory (workspace_id, importance DESC, created_at DESC, id DESC)
    WHERE deleted_at IS NULL;
CREATE INDEX memory_accessed ON memory (workspace_id, access_count DESC, created_at DESC, id DESC)
    WHERE deleted_at IS NULL;
