-- Key/value memories: what hangs on them, and the insights that are no memories.

-- The row that a save under the same key finds again.
CREATE INDEX memory_key ON memory (workspace_id, key)
    WHERE key IS NOT NULL AND deleted_at IS NULL;

-- Something attached to a memory. Its bytes stand apart, in pieces, so that an upload and a
-- download hold one piece at a time. Until it has a digest it is not there.
CREATE TABLE asset (
    workspace_id uuid NOT NULL,
    id uuid NOT NULL,
    memory_id uuid NOT NULL,
    filename text NOT NULL,
    media_type text NOT NULL,
    size bigint NOT NULL DEFAULT 0,
    digest bytea,
    created_at timestamptz NOT NULL,
    PRIMARY KEY (workspace_id, id),
    FOREIGN KEY (workspace_id, memory_id) REFERENCES memory ON DELETE CASCADE
);
CREATE INDEX asset_memory ON asset (workspace_id, memory_id, created_at, id);
CREATE INDEX asset_unfinished ON asset (created_at) WHERE digest IS NULL;

CREATE TABLE asset_piece (
    workspace_id uuid NOT NULL,
    asset_id uuid NOT NULL,
    number integer NOT NULL,
    bytes bytea NOT NULL,
    PRIMARY KEY (workspace_id, asset_id, number),
    FOREIGN KEY (workspace_id, asset_id) REFERENCES asset ON DELETE CASCADE
);
-- Compressing what is mostly compressed already costs time, and a part of it could not be read.
ALTER TABLE asset_piece ALTER COLUMN bytes SET STORAGE EXTERNAL;

-- Where a memory came from: a thread, or one message or turn of it. Like the memory, the link
-- outlives what it names; then it resolves to nothing.
CREATE TABLE memory_source (
    workspace_id uuid NOT NULL,
    id uuid NOT NULL,
    memory_id uuid NOT NULL,
    kind text NOT NULL CHECK (kind IN ('session', 'message')),
    target_id uuid NOT NULL,
    created_at timestamptz NOT NULL,
    PRIMARY KEY (workspace_id, id),
    UNIQUE (workspace_id, memory_id, kind, target_id),
    FOREIGN KEY (workspace_id, memory_id) REFERENCES memory ON DELETE CASCADE
);

-- What was learnt about a user: a store of its own, seen by that user alone.
CREATE TABLE insight (
    workspace_id uuid NOT NULL REFERENCES workspace (id),
    id uuid NOT NULL,
    user_id uuid NOT NULL REFERENCES app_user (id),
    category text NOT NULL,
    insight text NOT NULL,
    source text NOT NULL,
    confidence double precision NOT NULL CHECK (confidence BETWEEN 0 AND 1),
    metadata jsonb NOT NULL DEFAULT '{}',
    created_at timestamptz NOT NULL,
    PRIMARY KEY (workspace_id, id)
);
CREATE INDEX insight_user ON insight (workspace_id, user_id, created_at DESC, id DESC);
ALTER TABLE app_user ADD COLUMN learning_on boolean NOT NULL DEFAULT true;

DO $$
DECLARE
    name text;
BEGIN
    FOREACH name IN ARRAY ARRAY['asset', 'asset_piece', 'memory_source', 'insight'] LOOP
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
