-- Documents: what people bring in and what the assistant makes, kept whole and cut into chunks.

CREATE TABLE document (
    workspace_id uuid NOT NULL REFERENCES workspace (id),
    id uuid NOT NULL,
    code text NOT NULL,
    user_id uuid NOT NULL REFERENCES app_user (id),
    -- Its members' alone; null: everybody's in the workspace.
    project_id uuid,
    -- The conversation it was made in. No foreign key: it outlives that.
    thread_id uuid,
    kind text NOT NULL CHECK (kind IN ('upload', 'artifact')),
    name text NOT NULL,
    media_type text NOT NULL DEFAULT 'application/octet-stream',
    size bigint NOT NULL DEFAULT 0,
    digest bytea,
    -- `uploading` until all bytes are there; `stored` is kept whole and not searched.
    status text NOT NULL
        CHECK (status IN ('uploading', 'waiting', 'reading', 'ready', 'stored', 'failed')),
    error text,
    chunk_count integer NOT NULL DEFAULT 0,
    -- Whoever reads it has until then; after that another may.
    reading_until timestamptz,
    tries integer NOT NULL DEFAULT 0,
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL,
    PRIMARY KEY (workspace_id, id)
);
CREATE UNIQUE INDEX document_code ON document (workspace_id, left(code, 12));
CREATE INDEX document_created ON document (workspace_id, created_at DESC, id DESC);
CREATE INDEX document_digest ON document (workspace_id, digest);
CREATE INDEX document_unread ON document (workspace_id, created_at)
    WHERE status IN ('waiting', 'reading');
CREATE INDEX document_unfinished ON document (created_at) WHERE status = 'uploading';

CREATE TABLE document_piece (
    workspace_id uuid NOT NULL,
    document_id uuid NOT NULL,
    number integer NOT NULL,
    bytes bytea NOT NULL,
    PRIMARY KEY (workspace_id, document_id, number),
    FOREIGN KEY (workspace_id, document_id) REFERENCES document ON DELETE CASCADE
);
ALTER TABLE document_piece ALTER COLUMN bytes SET STORAGE EXTERNAL;

-- A stretch of a document's text. The next one begins before this one ends; `start` says where, so
-- that the whole text can be put together again.
CREATE TABLE chunk (
    workspace_id uuid NOT NULL,
    id uuid NOT NULL,
    document_id uuid NOT NULL,
    number integer NOT NULL,
    start integer NOT NULL,
    content text NOT NULL,
    heading text,
    page integer,
    -- What was indexed, so that it can be taken back exactly.
    terms text[] NOT NULL,
    vector_refused boolean NOT NULL DEFAULT false,
    PRIMARY KEY (workspace_id, id),
    UNIQUE (workspace_id, document_id, number),
    FOREIGN KEY (workspace_id, document_id) REFERENCES document ON DELETE CASCADE
);

CREATE TABLE chunk_word (
    workspace_id uuid NOT NULL,
    term text NOT NULL,
    chunk_id uuid NOT NULL,
    frequency integer NOT NULL,
    length integer NOT NULL,
    PRIMARY KEY (workspace_id, term, chunk_id)
);

-- One a chunk and generation, in the same spaces as those of memories.
CREATE TABLE chunk_vector (
    workspace_id uuid NOT NULL,
    chunk_id uuid NOT NULL,
    generation integer NOT NULL,
    document_id uuid NOT NULL,
    embedding halfvec NOT NULL,
    PRIMARY KEY (workspace_id, chunk_id, generation),
    FOREIGN KEY (workspace_id, chunk_id) REFERENCES chunk ON DELETE CASCADE
);
CREATE INDEX chunk_vector_space ON chunk_vector (workspace_id, generation, document_id);
-- As with memories: fetched one by one from another table, a scan would be several times slower.
ALTER TABLE chunk_vector ALTER COLUMN embedding SET STORAGE MAIN;

DO $$
DECLARE
    name text;
BEGIN
    FOREACH name IN ARRAY ARRAY[
        'document', 'document_piece', 'chunk', 'chunk_word', 'chunk_vector'
    ] LOOP
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
