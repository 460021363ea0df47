-- What is said in a thread, message by message, with files; and which memories were made of what.

-- A chat has a name and may be pinned. Counters change under the lock of the thread's row, so that
-- two servers that append at once agree. `segmented_*` is the last message whose stretch of the
-- conversation is closed: what comes after it is still open.
ALTER TABLE thread ADD COLUMN name text;
ALTER TABLE thread ADD COLUMN pinned boolean NOT NULL DEFAULT false;
ALTER TABLE thread ADD COLUMN message_count integer NOT NULL DEFAULT 0;
ALTER TABLE thread ADD COLUMN last_position bigint NOT NULL DEFAULT 0;
ALTER TABLE thread ADD COLUMN segmented_at timestamptz;
ALTER TABLE thread ADD COLUMN segmented_position bigint;
-- Something was said or changed that the segmenter has not looked at.
ALTER TABLE thread ADD COLUMN is_unsegmented boolean NOT NULL DEFAULT false;
CREATE INDEX thread_listed ON thread (workspace_id, pinned DESC, updated_at DESC, id DESC);
CREATE INDEX thread_unsegmented ON thread (workspace_id, id) WHERE is_unsegmented;

CREATE TABLE message (
    workspace_id uuid NOT NULL,
    id uuid NOT NULL,
    code text NOT NULL,
    -- A column, because under row-level security no index over `left(code, 12)` is used: the
    -- function is not leakproof. Among 100,000 messages: 57 ms without, 4 ms with it.
    short_code text NOT NULL GENERATED ALWAYS AS (left(code, 12)) STORED,
    thread_id uuid NOT NULL,
    -- Order of arrival, never used again. A chat is read by time of speaking, then by this.
    position bigint NOT NULL,
    -- The sender's own id: sent twice, it is kept once.
    client_id text,
    role text NOT NULL,
    author text,
    content text NOT NULL,
    -- What it was made of, where it was more than text: images, calls of tools.
    parts jsonb,
    metadata jsonb NOT NULL DEFAULT '{}',
    created_at timestamptz NOT NULL,
    edited_at timestamptz,
    PRIMARY KEY (workspace_id, id),
    FOREIGN KEY (workspace_id, thread_id) REFERENCES thread ON DELETE CASCADE
);
CREATE UNIQUE INDEX message_code ON message (workspace_id, short_code);
CREATE UNIQUE INDEX message_order ON message (workspace_id, thread_id, created_at, position);
CREATE UNIQUE INDEX message_client ON message (workspace_id, thread_id, client_id)
    WHERE client_id IS NOT NULL;

CREATE TABLE message_file (
    workspace_id uuid NOT NULL,
    id uuid NOT NULL,
    code text NOT NULL,
    short_code text NOT NULL GENERATED ALWAYS AS (left(code, 12)) STORED,
    message_id uuid NOT NULL,
    filename text NOT NULL,
    media_type text NOT NULL,
    size bigint NOT NULL,
    digest bytea NOT NULL,
    created_at timestamptz NOT NULL,
    PRIMARY KEY (workspace_id, id),
    FOREIGN KEY (workspace_id, message_id) REFERENCES message ON DELETE CASCADE
);
CREATE UNIQUE INDEX message_file_code ON message_file (workspace_id, short_code);
CREATE INDEX message_file_message ON message_file (workspace_id, message_id, created_at, id);

-- Bytes apart and in pieces: neither a list of files nor a download holds a file in memory.
CREATE TABLE message_file_piece (
    workspace_id uuid NOT NULL,
    file_id uuid NOT NULL,
    number integer NOT NULL,
    bytes bytea NOT NULL,
    PRIMARY KEY (workspace_id, file_id, number),
    FOREIGN KEY (workspace_id, file_id) REFERENCES message_file ON DELETE CASCADE
);

-- What a memory was made of. Removing either side leaves the other.
CREATE TABLE memory_message (
    workspace_id uuid NOT NULL,
    memory_id uuid NOT NULL,
    message_id uuid NOT NULL,
    PRIMARY KEY (workspace_id, memory_id, message_id),
    FOREIGN KEY (workspace_id, memory_id) REFERENCES memory ON DELETE CASCADE,
    FOREIGN KEY (workspace_id, message_id) REFERENCES message ON DELETE CASCADE
);
CREATE INDEX memory_message_message ON memory_message (workspace_id, message_id);

-- A memory that is the summary of messages: who wrote the summary, and why not the model.
CREATE TABLE segment (
    workspace_id uuid NOT NULL,
    memory_id uuid NOT NULL,
    thread_id uuid NOT NULL,
    -- Cut by the segmenter, or made by hand.
    is_cut boolean NOT NULL,
    -- Its messages have changed since: to be summarised anew. Only of those that were cut.
    is_stale boolean NOT NULL DEFAULT false,
    summarised_by text NOT NULL,
    fallback_reason text,
    PRIMARY KEY (workspace_id, memory_id),
    FOREIGN KEY (workspace_id, memory_id) REFERENCES memory ON DELETE CASCADE
);
CREATE INDEX segment_stale ON segment (workspace_id, thread_id) WHERE is_stale;

DO $$
DECLARE
    name text;
BEGIN
    FOREACH name IN ARRAY ARRAY[
        'message', 'message_file', 'message_file_piece', 'memory_message', 'segment'
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
