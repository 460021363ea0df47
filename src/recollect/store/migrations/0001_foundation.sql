-- The house: who there is, what they remember, and the work that follows.
--
-- Two kinds of table. Identity tables (org, app_user, workspace, api_key) say who there is. Data
-- tables hold what was said: each begins its primary key with workspace_id, which is the tenant, the
-- index and the shard key in one, and each is under row-level security (end of this file).

CREATE TABLE org (
    id uuid PRIMARY KEY,
    name text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE app_user (
    id uuid PRIMARY KEY,
    org_id uuid NOT NULL REFERENCES org (id),
    login text NOT NULL UNIQUE,
    password_hash text,
    is_admin boolean NOT NULL DEFAULT false,
    created_at timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE workspace (
    id uuid PRIMARY KEY,
    org_id uuid NOT NULL REFERENCES org (id),
    name text NOT NULL,
    -- One of the operator's named embedders; null is the server's own.
    embedder text,
    is_default boolean NOT NULL DEFAULT false,
    created_at timestamptz NOT NULL DEFAULT now(),
    UNIQUE (org_id, name)
);
CREATE UNIQUE INDEX workspace_default ON workspace (org_id) WHERE is_default;

CREATE TABLE api_key (
    id uuid PRIMARY KEY,
    org_id uuid NOT NULL REFERENCES org (id),
    workspace_id uuid NOT NULL REFERENCES workspace (id),
    user_id uuid NOT NULL REFERENCES app_user (id),
    name text NOT NULL,
    -- SHA-256 of the whole key: at 256 random bits a fast hash is the right one.
    digest bytea NOT NULL UNIQUE,
    prefix text NOT NULL,
    last_four text NOT NULL,
    rights text[] NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    expires_at timestamptz,
    revoked_at timestamptz,
    last_used_at timestamptz
);
CREATE INDEX api_key_workspace ON api_key (workspace_id, created_at);

-- Threads: what the documents call chat, session and channel.

CREATE TABLE thread (
    workspace_id uuid NOT NULL REFERENCES workspace (id),
    id uuid NOT NULL,
    code text NOT NULL,
    agent text,
    subject text,
    metadata jsonb NOT NULL DEFAULT '{}',
    state jsonb NOT NULL DEFAULT '{}',
    state_version integer NOT NULL DEFAULT 0,
    turn_count integer NOT NULL DEFAULT 0,
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL,
    -- Past this the thread and its state are gone to every reader; its memories stay.
    expires_at timestamptz,
    PRIMARY KEY (workspace_id, id)
);
CREATE UNIQUE INDEX thread_code ON thread (workspace_id, left(code, 12));
CREATE INDEX thread_created ON thread (workspace_id, created_at, id);
CREATE INDEX thread_expiry ON thread (expires_at) WHERE expires_at IS NOT NULL;

CREATE TABLE thread_state (
    workspace_id uuid NOT NULL,
    thread_id uuid NOT NULL,
    version integer NOT NULL,
    state jsonb NOT NULL,
    reasoning text,
    created_at timestamptz NOT NULL,
    PRIMARY KEY (workspace_id, thread_id, version),
    FOREIGN KEY (workspace_id, thread_id) REFERENCES thread ON DELETE CASCADE
);

CREATE TABLE turn (
    workspace_id uuid NOT NULL,
    thread_id uuid NOT NULL,
    number integer NOT NULL,
    id uuid NOT NULL,
    code text NOT NULL,
    input jsonb NOT NULL,
    output jsonb NOT NULL,
    reasoning text,
    metadata jsonb NOT NULL DEFAULT '{}',
    created_at timestamptz NOT NULL,
    PRIMARY KEY (workspace_id, thread_id, number),
    FOREIGN KEY (workspace_id, thread_id) REFERENCES thread ON DELETE CASCADE
);
CREATE UNIQUE INDEX turn_code ON turn (workspace_id, left(code, 12));

-- Memories.

CREATE TABLE memory (
    workspace_id uuid NOT NULL REFERENCES workspace (id),
    id uuid NOT NULL,
    code text NOT NULL,
    org_id uuid NOT NULL REFERENCES org (id),
    user_id uuid NOT NULL REFERENCES app_user (id),
    -- No foreign key: a memory outlives the thread it came from.
    thread_id uuid,
    subject text,
    content text NOT NULL,
    summary text,
    key text,
    category text,
    kind text,
    tags text[] NOT NULL DEFAULT '{}',
    metadata jsonb NOT NULL DEFAULT '{}',
    importance double precision NOT NULL CHECK (importance BETWEEN 0 AND 1),
    importance_base double precision NOT NULL CHECK (importance_base BETWEEN 0 AND 1),
    pinned boolean NOT NULL DEFAULT false,
    expires_at timestamptz,
    valid_from timestamptz,
    valid_until timestamptz,
    superseded_by uuid,
    lifecycle text NOT NULL CHECK (lifecycle IN ('permanent', 'decaying')),
    scope text NOT NULL CHECK (scope IN ('workspace', 'global', 'project', 'agent', 'thread')),
    origin text NOT NULL CHECK (origin IN ('user', 'model', 'auto')),
    origin_label text,
    source_note text,
    reason text,
    quote text,
    wants_vector boolean NOT NULL DEFAULT true,
    -- The embedder will not have this text; it stays findable by words and is not asked for again.
    vector_refused boolean NOT NULL DEFAULT false,
    -- Of the normalised content: finds the same statement without any vector.
    content_digest bytea NOT NULL,
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL,
    last_accessed_at timestamptz,
    access_count integer NOT NULL DEFAULT 0,
    deleted_at timestamptz,
    delete_reason text,
    version integer NOT NULL DEFAULT 1,
    -- Counts changes of the content alone: a vector made of an earlier one is stale.
    content_version integer NOT NULL DEFAULT 1,
    PRIMARY KEY (workspace_id, id)
);
-- The first twelve letters are an address of their own (one id, every spelling).
CREATE UNIQUE INDEX memory_code ON memory (workspace_id, left(code, 12));
CREATE INDEX memory_created ON memory (workspace_id, created_at DESC, id DESC)
    WHERE deleted_at IS NULL;
CREATE INDEX memory_thread ON memory (workspace_id, thread_id) WHERE thread_id IS NOT NULL;
CREATE INDEX memory_subject ON memory (workspace_id, subject, created_at DESC)
    WHERE subject IS NOT NULL AND deleted_at IS NULL;
CREATE INDEX memory_digest ON memory (workspace_id, content_digest) WHERE deleted_at IS NULL;

-- Embedding generations: one vector space of one workspace. Spaces are never mixed in a query.

CREATE TABLE generation (
    workspace_id uuid NOT NULL REFERENCES workspace (id),
    number integer NOT NULL,
    endpoint text NOT NULL,
    model text NOT NULL,
    dimension integer NOT NULL CHECK (dimension > 0),
    -- What the model made of a fixed text: shows a model swapped behind an unchanged name.
    fingerprint real[] NOT NULL,
    state text NOT NULL CHECK (state IN ('filling', 'serving', 'retired')),
    created_at timestamptz NOT NULL,
    served_at timestamptz,
    PRIMARY KEY (workspace_id, number)
);
CREATE UNIQUE INDEX generation_serving ON generation (workspace_id) WHERE state = 'serving';
CREATE UNIQUE INDEX generation_filling ON generation (workspace_id) WHERE state = 'filling';

-- Copies of what searches filter by stand beside the vector, so that an exact scan reads this table
-- alone. Joined to memory, its cost hung on the planner's statistics: quadratic before the first
-- ANALYZE (20 ms at 300 rows). A trigger on memory keeps the copies true.
CREATE TABLE memory_vector (
    workspace_id uuid NOT NULL,
    memory_id uuid NOT NULL,
    generation integer NOT NULL,
    -- Of which version of the content. A stale vector serves until the new one is there.
    content_version integer NOT NULL,
    embedding halfvec NOT NULL,
    thread_id uuid,
    subject text,
    category text,
    tags text[] NOT NULL,
    pinned boolean NOT NULL,
    expires_at timestamptz,
    valid_until timestamptz,
    deleted_at timestamptz,
    PRIMARY KEY (workspace_id, memory_id, generation),
    FOREIGN KEY (workspace_id, memory_id) REFERENCES memory ON DELETE CASCADE
) PARTITION BY HASH (workspace_id);
CREATE INDEX memory_vector_space ON memory_vector (workspace_id, generation);

CREATE FUNCTION copy_to_vector() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE memory_vector
    SET thread_id = NEW.thread_id, subject = NEW.subject, category = NEW.category,
        tags = NEW.tags, pinned = NEW.pinned, expires_at = NEW.expires_at,
        valid_until = NEW.valid_until, deleted_at = NEW.deleted_at
    WHERE workspace_id = NEW.workspace_id AND memory_id = NEW.id;
    RETURN NULL;
END
$$;
CREATE TRIGGER memory_copies_to_vector AFTER UPDATE ON memory
    FOR EACH ROW WHEN (
        (OLD.thread_id, OLD.subject, OLD.category, OLD.tags, OLD.pinned, OLD.expires_at,
         OLD.valid_until, OLD.deleted_at)
        IS DISTINCT FROM
        (NEW.thread_id, NEW.subject, NEW.category, NEW.tags, NEW.pinned, NEW.expires_at,
         NEW.valid_until, NEW.deleted_at)
    )
    EXECUTE FUNCTION copy_to_vector();

-- Keyword search: BM25 over postings that are ordinary rows, so exact after a crash.

CREATE TABLE memory_word (
    workspace_id uuid NOT NULL,
    term text NOT NULL,
    memory_id uuid NOT NULL,
    frequency integer NOT NULL,
    length integer NOT NULL,
    PRIMARY KEY (workspace_id, term, memory_id)
) PARTITION BY HASH (workspace_id);

-- What was indexed for each memory, so that it can be taken back exactly, whatever the tokeniser
-- does by then. It saves an index on the postings that would double them.
CREATE TABLE memory_terms (
    workspace_id uuid NOT NULL,
    memory_id uuid NOT NULL,
    terms text[] NOT NULL,
    length integer NOT NULL,
    PRIMARY KEY (workspace_id, memory_id),
    FOREIGN KEY (workspace_id, memory_id) REFERENCES memory ON DELETE CASCADE
);

-- Number and length of a workspace's indexed memories, as increments: a single counter row would
-- make concurrent saves wait for one another. The sum is exact; a job folds the rows together.
CREATE TABLE word_tally (
    workspace_id uuid NOT NULL,
    id bigint GENERATED ALWAYS AS IDENTITY,
    documents integer NOT NULL,
    length bigint NOT NULL,
    PRIMARY KEY (workspace_id, id)
);

DO $$
BEGIN
    FOR part IN 0..15 LOOP
        EXECUTE format(
            'CREATE TABLE memory_vector_%s PARTITION OF memory_vector '
            'FOR VALUES WITH (MODULUS 16, REMAINDER %s)', part, part);
        -- Vectors of up to 8 kB stay in the row: a scan that fetched each from its TOAST table
        -- was 3 to 7 times slower. Only those that cannot fit a page move out.
        EXECUTE format(
            'ALTER TABLE memory_vector_%s ALTER COLUMN embedding SET STORAGE MAIN', part);
        EXECUTE format(
            'CREATE TABLE memory_word_%s PARTITION OF memory_word '
            'FOR VALUES WITH (MODULUS 16, REMAINDER %s)', part, part);
    END LOOP;
END
$$;

-- Work that follows from a write, queued in that write's transaction.

CREATE TABLE job (
    workspace_id uuid NOT NULL REFERENCES workspace (id),
    id uuid NOT NULL,
    kind text NOT NULL,
    -- While one of the same kind and key waits, a second adds nothing.
    dedupe_key text NOT NULL,
    payload jsonb NOT NULL DEFAULT '{}',
    status text NOT NULL CHECK (status IN ('pending', 'running', 'done', 'buried')),
    attempts integer NOT NULL DEFAULT 0,
    run_after timestamptz NOT NULL,
    locked_until timestamptz,
    worker text,
    last_error text,
    created_at timestamptz NOT NULL,
    finished_at timestamptz,
    PRIMARY KEY (workspace_id, id)
);
CREATE UNIQUE INDEX job_waiting ON job (workspace_id, kind, dedupe_key) WHERE status = 'pending';
CREATE INDEX job_due ON job (run_after, id) WHERE status = 'pending';
CREATE INDEX job_open ON job (workspace_id, kind) WHERE status <> 'done';
CREATE INDEX job_leased ON job (locked_until) WHERE status = 'running';
CREATE INDEX job_finished ON job (finished_at) WHERE status = 'done';

-- What was done, by whom: ids and hashes, never text.

CREATE TABLE event (
    workspace_id uuid NOT NULL REFERENCES workspace (id),
    id uuid NOT NULL,
    action text NOT NULL,
    actor text NOT NULL,
    user_id uuid,
    thread_code text,
    subject text,
    details jsonb NOT NULL DEFAULT '{}',
    -- Why somebody deleted: for the audit alone, in no answer.
    reason text,
    at timestamptz NOT NULL,
    PRIMARY KEY (workspace_id, id)
);
CREATE INDEX event_at ON event (workspace_id, at DESC, id DESC);

CREATE INDEX event_thread ON event (workspace_id, left(thread_code, 12))
    WHERE thread_code IS NOT NULL;

CREATE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'audit events are append-only' USING ERRCODE = 'insufficient_privilege';
END
$$;
CREATE TRIGGER event_is_append_only BEFORE UPDATE OR DELETE ON event
    FOR EACH ROW EXECUTE FUNCTION refuse_change();

-- Answers kept for a day, so that a repeated request is answered and not done again.

CREATE TABLE idempotency (
    workspace_id uuid NOT NULL REFERENCES workspace (id),
    key_id uuid NOT NULL,
    route text NOT NULL,
    token text NOT NULL,
    body_digest bytea NOT NULL,
    -- Set in the transaction of the write itself: from then on it is never done again.
    is_done boolean NOT NULL DEFAULT false,
    status integer,
    answer bytea,
    media_type text,
    created_at timestamptz NOT NULL,
    locked_until timestamptz NOT NULL,
    PRIMARY KEY (workspace_id, key_id, route, token)
);
CREATE INDEX idempotency_created ON idempotency (created_at);

-- The second lock: a statement that forgot its workspace sees nothing. The setting lives for one
-- transaction. It reads as '' on a connection that used it before, hence NULLIF; the sub-select
-- makes it one look-up a statement instead of one a row. 'everywhere' is for the few statements
-- that serve all workspaces at once: claiming jobs, sweeping, migrating.
DO $$
DECLARE
    name text;
BEGIN
    FOREACH name IN ARRAY ARRAY[
        'thread', 'thread_state', 'turn', 'memory', 'generation', 'memory_vector', 'memory_word',
        'memory_terms', 'word_tally', 'job', 'event', 'idempotency'
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
