-- The whole schema of the first release, under the names that 0002 replaces.
--
-- Identity tables (org, app_user, workspace, api_key, sign_in) say who there is. Data tables hold
-- everything else. The primary key of a data table begins with workspace_id: one column serves
-- isolation and indexing. Every data table is under row-level security (end of this file).
--
-- Codes are the public ids. Their first twelve characters are unique in a workspace and stored as
-- a column, short_code, where a lookup needs an index: under row-level security PostgreSQL uses no
-- index over left(code, 12), because the function is not leakproof.

-- Identity

CREATE TABLE org (
    id uuid PRIMARY KEY,
    name text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    -- Off: a user's own memories are visible in every workspace of the org. On: only the active
    -- workspace is visible, and nothing without one.
    workspaces_on boolean NOT NULL DEFAULT false,
    archived_at timestamptz
);

CREATE TABLE app_user (
    id uuid PRIMARY KEY,
    org_id uuid NOT NULL REFERENCES org (id),
    login text NOT NULL UNIQUE,
    password_hash text,
    is_admin boolean NOT NULL DEFAULT false,
    created_at timestamptz NOT NULL DEFAULT now(),
    archived_at timestamptz,
    -- Whether insights about this user may be stored.
    learning_on boolean NOT NULL DEFAULT true
);

CREATE TABLE workspace (
    id uuid PRIMARY KEY,
    org_id uuid NOT NULL REFERENCES org (id),
    name text NOT NULL,
    -- One of the operator's named embedders. Null means the server's own.
    embedder text,
    is_default boolean NOT NULL DEFAULT false,
    created_at timestamptz NOT NULL DEFAULT now(),
    archived_at timestamptz,
    UNIQUE (org_id, name)
);
CREATE UNIQUE INDEX workspace_default ON workspace (org_id) WHERE is_default;

CREATE TABLE api_key (
    id uuid PRIMARY KEY,
    org_id uuid NOT NULL REFERENCES org (id),
    -- Null means the org's default workspace, or none if the org's workspaces are switched on.
    workspace_id uuid REFERENCES workspace (id),
    user_id uuid NOT NULL REFERENCES app_user (id),
    name text NOT NULL,
    -- SHA-256 of the whole key. A fast hash is right for 256 random bits.
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

-- Browsers that are signed in.
CREATE TABLE sign_in (
    -- SHA-256 of the token in the cookie. A fast hash is right for 256 random bits.
    digest bytea PRIMARY KEY,
    user_id uuid NOT NULL REFERENCES app_user (id) ON DELETE CASCADE,
    created_at timestamptz NOT NULL,
    last_seen_at timestamptz NOT NULL,
    expires_at timestamptz NOT NULL
);
CREATE INDEX sign_in_user ON sign_in (user_id);
CREATE INDEX sign_in_expiry ON sign_in (expires_at);

-- Failed sign-ins. In the database, so that several servers share one limit.
CREATE TABLE sign_in_try (
    -- Digest of an account or an address: the table does not show who tried.
    subject bytea PRIMARY KEY,
    failures integer NOT NULL,
    tried_at timestamptz NOT NULL,
    next_at timestamptz NOT NULL
);
CREATE INDEX sign_in_try_tried ON sign_in_try (tried_at);

CREATE TABLE workspace_member (
    workspace_id uuid NOT NULL REFERENCES workspace (id) ON DELETE CASCADE,
    user_id uuid NOT NULL REFERENCES app_user (id) ON DELETE CASCADE,
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (workspace_id, user_id)
);

CREATE TABLE project (
    workspace_id uuid NOT NULL REFERENCES workspace (id),
    id uuid NOT NULL,
    name text NOT NULL,
    created_at timestamptz NOT NULL,
    archived_at timestamptz,
    PRIMARY KEY (workspace_id, id),
    UNIQUE (workspace_id, name)
);

CREATE TABLE project_member (
    workspace_id uuid NOT NULL,
    project_id uuid NOT NULL,
    user_id uuid NOT NULL REFERENCES app_user (id) ON DELETE CASCADE,
    created_at timestamptz NOT NULL,
    PRIMARY KEY (workspace_id, project_id, user_id),
    FOREIGN KEY (workspace_id, project_id) REFERENCES project ON DELETE CASCADE
);
CREATE INDEX project_member_user ON project_member (workspace_id, user_id);

CREATE TABLE agent (
    workspace_id uuid NOT NULL REFERENCES workspace (id),
    id uuid NOT NULL,
    -- Only the members of the project see the agent. Null: everyone in the workspace does.
    project_id uuid,
    name text NOT NULL,
    created_at timestamptz NOT NULL,
    archived_at timestamptz,
    PRIMARY KEY (workspace_id, id),
    UNIQUE (workspace_id, name),
    FOREIGN KEY (workspace_id, project_id) REFERENCES project
);

-- Conversations

-- A thread is a chat, a session or a channel of the interfaces.
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
    -- After this time no reader sees the thread or its state. Its memories stay.
    expires_at timestamptz,
    -- The client's own name for the conversation.
    label text,
    -- The owner. Threads made before owners existed belong to the workspace.
    user_id uuid,
    project_id uuid,
    agent_id uuid,
    name text,
    pinned boolean NOT NULL DEFAULT false,
    -- Counters change under the lock of this row, so that servers that append at once agree.
    message_count integer NOT NULL DEFAULT 0,
    last_position bigint NOT NULL DEFAULT 0,
    -- The last message in a closed segment. Later messages are in the open one.
    segmented_at timestamptz,
    segmented_position bigint,
    -- When the last message arrived, by the server's clock: a pause only counts if we saw it.
    heard_at timestamptz,
    -- When the segmenter looks next. Null: no segment is open.
    segment_due_at timestamptz,
    short_code text NOT NULL GENERATED ALWAYS AS (left(code, 12)) STORED,
    PRIMARY KEY (workspace_id, id)
);
CREATE UNIQUE INDEX thread_code ON thread (workspace_id, short_code);
CREATE UNIQUE INDEX thread_label ON thread (workspace_id, label);
CREATE INDEX thread_created ON thread (workspace_id, created_at, id);
CREATE INDEX thread_expiry ON thread (expires_at) WHERE expires_at IS NOT NULL;
CREATE INDEX thread_agent ON thread (workspace_id, agent) WHERE agent IS NOT NULL;
CREATE INDEX thread_listed ON thread (workspace_id, pinned DESC, updated_at DESC, id DESC);
CREATE INDEX thread_segment_due ON thread (workspace_id, segment_due_at)
    WHERE segment_due_at IS NOT NULL;

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
    -- The user who posted it, who need not own the thread. Erased with that user.
    user_id uuid,
    PRIMARY KEY (workspace_id, thread_id, number),
    FOREIGN KEY (workspace_id, thread_id) REFERENCES thread ON DELETE CASCADE
);
CREATE UNIQUE INDEX turn_code ON turn (workspace_id, left(code, 12));

CREATE TABLE message (
    workspace_id uuid NOT NULL,
    id uuid NOT NULL,
    code text NOT NULL,
    -- Among 100,000 messages a lookup takes 4 ms with this column and 57 without.
    short_code text NOT NULL GENERATED ALWAYS AS (left(code, 12)) STORED,
    thread_id uuid NOT NULL,
    -- The order of arrival, never reused. A chat is sorted by created_at, then by this.
    position bigint NOT NULL,
    -- The sender's own id: a message sent twice is stored once.
    client_id text,
    role text NOT NULL,
    author text,
    content text NOT NULL,
    -- The original parts, if it was more than text: images, tool calls.
    parts jsonb,
    metadata jsonb NOT NULL DEFAULT '{}',
    created_at timestamptz NOT NULL,
    edited_at timestamptz,
    -- The user who posted it, who need not own the thread. Erased with that user.
    user_id uuid,
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

-- Bytes are stored in pieces, so that neither a list nor a download loads a whole file.
CREATE TABLE message_file_piece (
    workspace_id uuid NOT NULL,
    file_id uuid NOT NULL,
    number integer NOT NULL,
    bytes bytea NOT NULL,
    PRIMARY KEY (workspace_id, file_id, number),
    FOREIGN KEY (workspace_id, file_id) REFERENCES message_file ON DELETE CASCADE
);

-- Memories

CREATE TABLE memory (
    workspace_id uuid NOT NULL REFERENCES workspace (id),
    id uuid NOT NULL,
    code text NOT NULL,
    org_id uuid NOT NULL REFERENCES org (id),
    user_id uuid NOT NULL REFERENCES app_user (id),
    -- No foreign key: a memory outlives its thread, project and agent.
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
    -- The embedder refused this text. It is found by words only and not embedded again.
    vector_refused boolean NOT NULL DEFAULT false,
    -- Digest of the normalised content: finds the same statement without a vector.
    content_digest bytea NOT NULL,
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL,
    last_accessed_at timestamptz,
    access_count integer NOT NULL DEFAULT 0,
    deleted_at timestamptz,
    delete_reason text,
    version integer NOT NULL DEFAULT 1,
    -- Counts changes of the content only: a vector of an earlier content is stale.
    content_version integer NOT NULL DEFAULT 1,
    project_id uuid,
    agent_id uuid,
    short_code text NOT NULL GENERATED ALWAYS AS (left(code, 12)) STORED,
    PRIMARY KEY (workspace_id, id)
)
-- Room in each page, so that counting an access rewrites no index entry. Before, a recall of ten
-- memories wrote 90 log records and up to half a megabyte.
WITH (fillfactor = 85);
CREATE UNIQUE INDEX memory_code ON memory (workspace_id, short_code);
-- With the columns of the visibility predicate, so that a count reads no row.
CREATE INDEX memory_created ON memory (workspace_id, created_at DESC, id DESC)
    INCLUDE (scope, user_id, project_id, agent_id, thread_id, expires_at, valid_from, valid_until)
    WHERE deleted_at IS NULL;
CREATE INDEX memory_subject ON memory (workspace_id, subject, created_at DESC)
    WHERE subject IS NOT NULL AND deleted_at IS NULL;
CREATE INDEX memory_thread_order ON memory (workspace_id, thread_id, created_at, id)
    WHERE thread_id IS NOT NULL;
CREATE INDEX memory_importance ON memory (workspace_id, importance DESC, created_at DESC, id DESC)
    WHERE deleted_at IS NULL;
-- The scope owner is part of these indexes: a save does not read what others hold in another
-- scope, so its duration says nothing about them. By CASE, because under row-level security
-- PostgreSQL uses no index over coalesce.
CREATE INDEX memory_digest ON memory (workspace_id, content_digest, scope, (
    CASE scope
        WHEN 'global' THEN user_id
        WHEN 'project' THEN project_id
        WHEN 'agent' THEN agent_id
        WHEN 'thread' THEN thread_id
        ELSE workspace_id
    END
)) WHERE deleted_at IS NULL;
CREATE INDEX memory_key ON memory (workspace_id, key, scope, (
    CASE scope WHEN 'project' THEN project_id WHEN 'agent' THEN agent_id ELSE user_id END
)) WHERE key IS NOT NULL AND deleted_at IS NULL;
-- The neighbours of a memory that belongs to no conversation.
CREATE INDEX memory_beside ON memory (
    workspace_id,
    (CASE scope
        WHEN 'global' THEN user_id
        WHEN 'project' THEN project_id
        WHEN 'agent' THEN agent_id
        WHEN 'thread' THEN thread_id
        ELSE workspace_id
    END),
    created_at, id
) WHERE thread_id IS NULL AND deleted_at IS NULL;
-- Facts with one value at a time, such as a home town, are found by their slot.
CREATE INDEX memory_slot ON memory (workspace_id, (metadata ->> 'slot'))
    WHERE deleted_at IS NULL AND metadata ? 'slot';
-- The memories that every turn of a chat is given.
CREATE INDEX memory_told ON memory (workspace_id, created_at, id)
    WHERE pinned OR kind = 'identity';
-- Nearly always empty: recall asks whether any text was refused.
CREATE INDEX memory_refused ON memory (workspace_id) WHERE vector_refused AND deleted_at IS NULL;

-- Earlier contents of a memory, each with the last version that had it. Deleted with the memory.
CREATE TABLE memory_text (
    workspace_id uuid NOT NULL,
    memory_id uuid NOT NULL,
    version integer NOT NULL,
    content text NOT NULL,
    replaced_at timestamptz NOT NULL,
    PRIMARY KEY (workspace_id, memory_id, version),
    FOREIGN KEY (workspace_id, memory_id) REFERENCES memory ON DELETE CASCADE
);

CREATE TABLE association (
    workspace_id uuid NOT NULL,
    id uuid NOT NULL,
    source_id uuid NOT NULL,
    target_id uuid NOT NULL,
    relation text NOT NULL CHECK (
        relation IN ('related_to', 'updates', 'contradicts', 'caused_by', 'result_of', 'part_of')),
    weight double precision NOT NULL CHECK (weight BETWEEN 0 AND 1),
    -- True: a person or tool made the link. False: it was made by similarity and means less.
    is_authored boolean NOT NULL,
    created_at timestamptz NOT NULL,
    PRIMARY KEY (workspace_id, source_id, target_id, relation),
    FOREIGN KEY (workspace_id, source_id) REFERENCES memory ON DELETE CASCADE,
    FOREIGN KEY (workspace_id, target_id) REFERENCES memory ON DELETE CASCADE,
    CHECK (source_id <> target_id)
);
-- By relation, strongest first: where 100,000 links lead to one memory, only a few are read.
CREATE INDEX association_outward ON association (
    workspace_id, source_id, is_authored, relation, weight DESC, target_id
);
CREATE INDEX association_inward ON association (
    workspace_id, target_id, is_authored, relation, weight DESC, source_id
);

-- Something attached to a memory. It does not exist for readers until it has a digest.
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
-- Not compressed: most files already are, and a part of a compressed value cannot be read.
ALTER TABLE asset_piece ALTER COLUMN bytes SET STORAGE EXTERNAL;

-- The thread, message or turn that a memory came from. The link outlives its target.
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

-- The messages a memory was made of. Deleting either side leaves the other.
CREATE TABLE memory_message (
    workspace_id uuid NOT NULL,
    memory_id uuid NOT NULL,
    message_id uuid NOT NULL,
    PRIMARY KEY (workspace_id, memory_id, message_id),
    FOREIGN KEY (workspace_id, memory_id) REFERENCES memory ON DELETE CASCADE,
    FOREIGN KEY (workspace_id, message_id) REFERENCES message ON DELETE CASCADE
);
CREATE INDEX memory_message_message ON memory_message (workspace_id, message_id);

-- A memory that summarises messages.
CREATE TABLE segment (
    workspace_id uuid NOT NULL,
    memory_id uuid NOT NULL,
    thread_id uuid NOT NULL,
    -- True: cut by the segmenter. False: made by hand.
    is_cut boolean NOT NULL,
    -- Its messages changed and it must be summarised again. Only for segments that were cut.
    is_stale boolean NOT NULL DEFAULT false,
    summarised_by text NOT NULL,
    -- Why the model did not write the summary.
    fallback_reason text,
    PRIMARY KEY (workspace_id, memory_id),
    FOREIGN KEY (workspace_id, memory_id) REFERENCES memory ON DELETE CASCADE
);
CREATE INDEX segment_stale ON segment (workspace_id, thread_id) WHERE is_stale;

-- Vectors

-- An embedding generation is one vector space of one workspace. A query never mixes generations.
CREATE TABLE generation (
    workspace_id uuid NOT NULL REFERENCES workspace (id),
    number integer NOT NULL,
    endpoint text NOT NULL,
    model text NOT NULL,
    dimension integer NOT NULL CHECK (dimension > 0),
    -- The vector of a fixed text: shows that the model behind a name was replaced.
    fingerprint real[] NOT NULL,
    state text NOT NULL CHECK (state IN ('filling', 'serving', 'retired')),
    created_at timestamptz NOT NULL,
    served_at timestamptz,
    PRIMARY KEY (workspace_id, number)
);
CREATE UNIQUE INDEX generation_serving ON generation (workspace_id) WHERE state = 'serving';
CREATE UNIQUE INDEX generation_filling ON generation (workspace_id) WHERE state = 'filling';

-- The columns that searches filter by are copied beside the vector, so that an exact scan reads
-- one table. With a join, the cost depended on the planner's statistics and was quadratic before
-- the first ANALYZE (20 ms at 300 rows). Triggers on memory keep the copies equal.
CREATE TABLE memory_vector (
    workspace_id uuid NOT NULL,
    memory_id uuid NOT NULL,
    generation integer NOT NULL,
    -- The version of the content that was embedded. A stale vector serves until replaced.
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
    valid_from timestamptz,
    kind text,
    created_at timestamptz,
    scope text NOT NULL,
    user_id uuid,
    project_id uuid,
    agent_id uuid,
    PRIMARY KEY (workspace_id, memory_id, generation),
    FOREIGN KEY (workspace_id, memory_id) REFERENCES memory ON DELETE CASCADE
) PARTITION BY HASH (workspace_id);
CREATE INDEX memory_vector_space ON memory_vector (workspace_id, generation);

CREATE FUNCTION copy_to_vector() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE memory_vector
    SET thread_id = NEW.thread_id, subject = NEW.subject, category = NEW.category,
        kind = NEW.kind, tags = NEW.tags, pinned = NEW.pinned, expires_at = NEW.expires_at,
        valid_from = NEW.valid_from, valid_until = NEW.valid_until, deleted_at = NEW.deleted_at
    WHERE workspace_id = NEW.workspace_id AND memory_id = NEW.id;
    RETURN NULL;
END
$$;
CREATE TRIGGER memory_copies_to_vector AFTER UPDATE ON memory
    FOR EACH ROW WHEN (
        (OLD.thread_id, OLD.subject, OLD.category, OLD.kind, OLD.tags, OLD.pinned, OLD.expires_at,
         OLD.valid_from, OLD.valid_until, OLD.deleted_at)
        IS DISTINCT FROM
        (NEW.thread_id, NEW.subject, NEW.category, NEW.kind, NEW.tags, NEW.pinned, NEW.expires_at,
         NEW.valid_from, NEW.valid_until, NEW.deleted_at)
    )
    EXECUTE FUNCTION copy_to_vector();

CREATE FUNCTION copy_sight_to_vector() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE memory_vector
    SET scope = NEW.scope, user_id = NEW.user_id, project_id = NEW.project_id,
        agent_id = NEW.agent_id
    WHERE workspace_id = NEW.workspace_id AND memory_id = NEW.id;
    RETURN NULL;
END
$$;
CREATE TRIGGER memory_copies_sight_to_vector AFTER UPDATE ON memory
    FOR EACH ROW WHEN (
        (OLD.scope, OLD.user_id, OLD.project_id, OLD.agent_id)
        IS DISTINCT FROM (NEW.scope, NEW.user_id, NEW.project_id, NEW.agent_id)
    )
    EXECUTE FUNCTION copy_sight_to_vector();

-- Partial vector indexes: one for each large workspace, and one for each long thread (an exact
-- scan over 100,000 memories of one chat takes 60 ms). An index over all workspaces finds nearly
-- nothing under a workspace filter. The row exists before its index is built and is deleted with
-- the thread; an index without a row is dropped.
CREATE TABLE vector_index (
    workspace_id uuid NOT NULL REFERENCES workspace (id),
    generation integer NOT NULL,
    name text NOT NULL,
    is_ready boolean NOT NULL DEFAULT false,
    -- Built with more links per vector, for a very large workspace.
    is_dense boolean NOT NULL DEFAULT false,
    -- Null: the index of the whole workspace.
    thread_id uuid,
    PRIMARY KEY (workspace_id, name),
    FOREIGN KEY (workspace_id, thread_id) REFERENCES thread ON DELETE CASCADE
);
CREATE UNIQUE INDEX vector_index_of
    ON vector_index (workspace_id, generation, thread_id) NULLS NOT DISTINCT;

-- The keyword index: BM25 over ordinary rows, which are exact after a crash

-- Postings. `place` is the scope owner of the memory: the workspace, user, project, agent or
-- thread that its scope belongs to. A search reads the postings of the caller's own scopes only,
-- so no result depends on what others store. The counts in the index save visiting the rows.
CREATE TABLE memory_word (
    workspace_id uuid NOT NULL,
    term text NOT NULL,
    place uuid NOT NULL,
    memory_id uuid NOT NULL,
    frequency integer NOT NULL,
    length integer NOT NULL,
    PRIMARY KEY (workspace_id, term, place, memory_id) INCLUDE (frequency, length)
) PARTITION BY HASH (workspace_id);

-- The terms indexed for each memory, so that exactly these postings can be removed later. An index
-- on the postings for that would double them.
CREATE TABLE memory_terms (
    workspace_id uuid NOT NULL,
    memory_id uuid NOT NULL,
    terms text[] NOT NULL,
    length integer NOT NULL,
    -- Imported rows may lack a scope owner; they are keyed by their own id.
    place uuid NOT NULL,
    PRIMARY KEY (workspace_id, memory_id),
    FOREIGN KEY (workspace_id, memory_id) REFERENCES memory ON DELETE CASCADE
);

-- Number and length of the indexed memories, as increments: one counter row would make concurrent
-- saves wait for each other. The sum is exact, and a job folds the rows.
CREATE TABLE word_tally (
    workspace_id uuid NOT NULL,
    id bigint GENERATED ALWAYS AS IDENTITY,
    documents integer NOT NULL,
    length bigint NOT NULL,
    place uuid NOT NULL,
    PRIMARY KEY (workspace_id, id)
);
CREATE INDEX word_tally_place ON word_tally (workspace_id, place);

-- How many memories of a large workspace contain each common word, so that a search need not read
-- the postings of a word that says little. A job counts them.
CREATE TABLE common_word (
    workspace_id uuid NOT NULL REFERENCES workspace (id),
    term text NOT NULL,
    memories bigint NOT NULL,
    place uuid NOT NULL,
    PRIMARY KEY (workspace_id, term, place)
);
-- How many memories there were when the common words were counted.
CREATE TABLE word_census (
    workspace_id uuid PRIMARY KEY REFERENCES workspace (id),
    documents bigint NOT NULL
);

DO $$
BEGIN
    FOR part IN 0..15 LOOP
        EXECUTE format(
            'CREATE TABLE memory_vector_%s PARTITION OF memory_vector '
            'FOR VALUES WITH (MODULUS 16, REMAINDER %s)', part, part);
        -- Vectors of up to 8 kB stay in the row: a scan that fetched each one from its TOAST table
        -- was 3 to 7 times slower.
        EXECUTE format(
            'ALTER TABLE memory_vector_%s ALTER COLUMN embedding SET STORAGE MAIN', part);
        EXECUTE format(
            'CREATE TABLE memory_word_%s PARTITION OF memory_word '
            'FOR VALUES WITH (MODULUS 16, REMAINDER %s)', part, part);
    END LOOP;
END
$$;

-- Documents

CREATE TABLE document (
    workspace_id uuid NOT NULL REFERENCES workspace (id),
    id uuid NOT NULL,
    code text NOT NULL,
    user_id uuid NOT NULL REFERENCES app_user (id),
    -- Only the members of the project see it. Null: everyone in the workspace does.
    project_id uuid,
    -- The conversation it was made in. No foreign key: it outlives the thread.
    thread_id uuid,
    kind text NOT NULL CHECK (kind IN ('upload', 'artifact')),
    name text NOT NULL,
    media_type text NOT NULL DEFAULT 'application/octet-stream',
    size bigint NOT NULL DEFAULT 0,
    digest bytea,
    -- `uploading` until all bytes have arrived. A `stored` document is kept but not searched.
    status text NOT NULL
        CHECK (status IN ('uploading', 'waiting', 'reading', 'ready', 'stored', 'failed')),
    error text,
    chunk_count integer NOT NULL DEFAULT 0,
    -- The lease of the worker that reads it.
    reading_until timestamptz,
    tries integer NOT NULL DEFAULT 0,
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL,
    PRIMARY KEY (workspace_id, id)
);
CREATE UNIQUE INDEX document_code ON document (workspace_id, left(code, 12));
CREATE INDEX document_created ON document (workspace_id, created_at DESC, id DESC);
CREATE INDEX document_digest ON document (
    workspace_id, digest, (CASE WHEN project_id IS NULL THEN workspace_id ELSE project_id END)
);
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

-- Chunks overlap. `start` is the offset in the whole text, so that it can be put together again.
CREATE TABLE chunk (
    workspace_id uuid NOT NULL,
    id uuid NOT NULL,
    document_id uuid NOT NULL,
    number integer NOT NULL,
    start integer NOT NULL,
    content text NOT NULL,
    heading text,
    page integer,
    -- The indexed terms, so that exactly these postings can be removed later.
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

-- One row per chunk and generation, in the same vector spaces as memories.
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
-- As for memories: vectors fetched from a TOAST table make a scan several times slower.
ALTER TABLE chunk_vector ALTER COLUMN embedding SET STORAGE MAIN;

-- Turns

-- The memories injected behind a user message, so that the next request of the conversation begins
-- with the same bytes. Ids, not texts: a forgotten memory is not repeated.
CREATE TABLE injection (
    workspace_id uuid NOT NULL REFERENCES workspace (id),
    -- Digest of the conversation up to that message, as the client sends it.
    place bytea NOT NULL,
    memory_ids uuid[] NOT NULL,
    -- The secret part of the prompt fence.
    suffix text NOT NULL,
    created_at timestamptz NOT NULL,
    -- The owner, for erasure. No foreign key: the rows expire.
    user_id uuid,
    PRIMARY KEY (workspace_id, place)
);
CREATE INDEX injection_created ON injection (created_at);

-- Calls of built-in tools beside a client's own tool call. They are put back into the conversation
-- when the client returns with its result.
CREATE TABLE hidden_call (
    workspace_id uuid NOT NULL REFERENCES workspace (id),
    -- The client's tool call.
    call_id text NOT NULL,
    calls jsonb NOT NULL,
    results jsonb NOT NULL,
    created_at timestamptz NOT NULL,
    user_id uuid,
    PRIMARY KEY (workspace_id, call_id)
);
CREATE INDEX hidden_call_created ON hidden_call (created_at);

-- Responses that a later request may continue by id. Each row holds its own messages; earlier ones
-- are found by following previous_id.
CREATE TABLE response (
    workspace_id uuid NOT NULL REFERENCES workspace (id),
    id text NOT NULL,
    previous_id text,
    conversation text,
    subject text,
    input jsonb NOT NULL,
    messages jsonb NOT NULL,
    answer jsonb NOT NULL,
    created_at timestamptz NOT NULL,
    user_id uuid,
    PRIMARY KEY (workspace_id, id)
);
CREATE INDEX response_conversation ON response (workspace_id, conversation, created_at DESC)
    WHERE conversation IS NOT NULL;
CREATE INDEX response_created ON response (created_at);

-- The ledger: a row when a call to a model begins, closed when it ends or fails.
CREATE TABLE model_call (
    workspace_id uuid NOT NULL REFERENCES workspace (id),
    id uuid NOT NULL,
    purpose text NOT NULL,
    model text NOT NULL,
    state text NOT NULL CHECK (state IN ('open', 'done', 'failed')),
    -- The most an open call may use. It counts until the real numbers are known.
    reserved_tokens bigint NOT NULL DEFAULT 0,
    input_tokens bigint NOT NULL DEFAULT 0,
    output_tokens bigint NOT NULL DEFAULT 0,
    started_at timestamptz NOT NULL,
    ended_at timestamptz,
    -- By the price table at the time. Null if the table has no price for the model.
    cost numeric(18, 9),
    PRIMARY KEY (workspace_id, id)
);
CREATE INDEX model_call_started ON model_call (workspace_id, started_at DESC);

-- Learning

-- Text waiting to be learnt from. The text is removed when done. The digest stays, so that the same
-- words are not processed twice.
CREATE TABLE lesson (
    workspace_id uuid NOT NULL REFERENCES workspace (id),
    id uuid NOT NULL,
    dedupe_key text NOT NULL,
    -- The path it came by: tool, turn, auto_deep_think, ...
    source text NOT NULL,
    org_id uuid NOT NULL,
    user_id uuid NOT NULL,
    subject text,
    thread_id uuid,
    text text,
    digest bytea NOT NULL,
    said_at timestamptz NOT NULL,
    state text NOT NULL CHECK (state IN ('pending', 'done', 'failed')),
    attempts integer NOT NULL DEFAULT 0,
    created_at timestamptz NOT NULL,
    done_at timestamptz,
    -- The claim of a worker, so that no model is paid twice.
    held_until timestamptz,
    -- Learnt for the project of its thread: the same words outside of it are new.
    project_id uuid,
    PRIMARY KEY (workspace_id, id),
    FOREIGN KEY (workspace_id, thread_id) REFERENCES thread (workspace_id, id) ON DELETE CASCADE
);
CREATE UNIQUE INDEX lesson_key ON lesson (workspace_id, dedupe_key);
CREATE INDEX lesson_pending ON lesson (workspace_id, created_at, id) WHERE state = 'pending';
CREATE INDEX lesson_digest ON lesson (
    workspace_id, digest, (CASE WHEN project_id IS NULL THEN workspace_id ELSE project_id END)
) WHERE state = 'done';
CREATE INDEX lesson_done ON lesson (done_at) WHERE state <> 'pending';

-- What the distiller proposes: saved at once, or waiting for review.
CREATE TABLE candidate (
    workspace_id uuid NOT NULL REFERENCES workspace (id),
    id uuid NOT NULL,
    lesson_id uuid NOT NULL,
    content text NOT NULL,
    summary text,
    category text,
    quote text NOT NULL,
    -- A later statement in the same slot supersedes this one, such as a new home town.
    slot text,
    -- Why it waits for review.
    why text,
    state text NOT NULL CHECK (state IN ('ready', 'pending', 'kept', 'rejected')),
    memory_id uuid,
    created_at timestamptz NOT NULL,
    decided_at timestamptz,
    PRIMARY KEY (workspace_id, id),
    FOREIGN KEY (workspace_id, lesson_id) REFERENCES lesson (workspace_id, id) ON DELETE CASCADE
);
CREATE INDEX candidate_open ON candidate (workspace_id, created_at, id)
    WHERE state IN ('ready', 'pending');
CREATE INDEX candidate_lesson ON candidate (workspace_id, lesson_id);

-- Insights about a user, stored apart from memories and visible to that user only.
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

-- Jobs, audit, repeated requests

-- A job is inserted in the transaction that makes it necessary.
CREATE TABLE job (
    workspace_id uuid NOT NULL REFERENCES workspace (id),
    id uuid NOT NULL,
    kind text NOT NULL,
    -- While a job of the same kind and key is queued, a second one is not added.
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

-- The audit log: ids and hashes, never text.
CREATE TABLE event (
    workspace_id uuid NOT NULL REFERENCES workspace (id),
    id uuid NOT NULL,
    action text NOT NULL,
    actor text NOT NULL,
    user_id uuid,
    thread_code text,
    subject text,
    details jsonb NOT NULL DEFAULT '{}',
    -- The reason of a deletion. No response shows it.
    reason text,
    at timestamptz NOT NULL,
    -- About something that not everyone in the workspace sees: only its actor sees the event.
    is_private boolean NOT NULL DEFAULT false,
    -- A column, because under row-level security no index helps a search inside `details`.
    memory_code text GENERATED ALWAYS AS (details ->> 'memory') STORED,
    PRIMARY KEY (workspace_id, id)
);
CREATE INDEX event_at ON event (workspace_id, at DESC, id DESC);
CREATE INDEX event_thread ON event (workspace_id, left(thread_code, 12))
    WHERE thread_code IS NOT NULL;
CREATE INDEX event_memory ON event (workspace_id, memory_code, at) WHERE memory_code IS NOT NULL;

-- The audit log is append-only. Only an erasure may remove from an event the person it was about
-- and the reason, or delete the events of a workspace that is erased.
CREATE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF current_setting('recollect.erasing', true) = 'on' THEN
        IF TG_OP = 'DELETE' THEN
            RETURN OLD;
        END IF;
        IF NEW.reason IS NULL AND NEW.subject IS NULL
            AND (NEW.user_id IS NULL OR NEW.user_id = OLD.user_id)
            AND NEW.actor IN (OLD.actor, 'erased')
            AND (NEW.workspace_id, NEW.id, NEW.action, NEW.thread_code, NEW.details, NEW.at,
                 NEW.is_private)
            IS NOT DISTINCT FROM
            (OLD.workspace_id, OLD.id, OLD.action, OLD.thread_code, OLD.details, OLD.at,
             OLD.is_private)
        THEN
            RETURN NEW;
        END IF;
    END IF;
    RAISE EXCEPTION 'audit events are append-only' USING ERRCODE = 'insufficient_privilege';
END
$$;
CREATE TRIGGER event_is_append_only BEFORE UPDATE OR DELETE ON event
    FOR EACH ROW EXECUTE FUNCTION refuse_change();

-- Responses stored for a day, so that a repeated request gets the first response.
CREATE TABLE idempotency (
    workspace_id uuid NOT NULL REFERENCES workspace (id),
    key_id uuid NOT NULL,
    route text NOT NULL,
    token text NOT NULL,
    body_digest bytea NOT NULL,
    -- Set in the transaction of the write: from then on the request never runs again.
    is_done boolean NOT NULL DEFAULT false,
    status integer,
    answer bytea,
    media_type text,
    created_at timestamptz NOT NULL,
    locked_until timestamptz NOT NULL,
    PRIMARY KEY (workspace_id, key_id, route, token)
);
CREATE INDEX idempotency_created ON idempotency (created_at);

-- Receipts of erasures: hashes and numbers, no ids and no text. Each holds the hash of the one
-- before it, so that none can be removed or changed unnoticed. No foreign key: a receipt outlives
-- its org.
CREATE TABLE erasure (
    id uuid PRIMARY KEY,
    number bigint NOT NULL UNIQUE,
    org_id uuid NOT NULL,
    receipt text NOT NULL,
    hash text NOT NULL,
    created_at timestamptz NOT NULL
);
CREATE INDEX erasure_org ON erasure (org_id, number);

CREATE FUNCTION refuse_change_of_receipt() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'receipts are append-only' USING ERRCODE = 'insufficient_privilege';
END
$$;
CREATE TRIGGER erasure_is_append_only BEFORE UPDATE OR DELETE ON erasure
    FOR EACH ROW EXECUTE FUNCTION refuse_change_of_receipt();

-- Row-level security repeats the rule that every statement names its workspace: a statement that
-- does not sees no rows. The setting lasts for one transaction. It reads as '' on a connection that
-- used it before, hence NULLIF. The sub-select makes it one lookup per statement instead of one per
-- row. 'everywhere' is for the few statements that serve all workspaces: claiming jobs, sweeping,
-- migrating. Partitions are tables of their own and need the same policy.
DO $$
DECLARE
    name text;
BEGIN
    FOR name IN
        SELECT c.relname
        FROM pg_class c
        WHERE c.relnamespace = current_schema()::regnamespace
            AND c.relkind IN ('r', 'p')
            AND c.relname NOT IN (
                'migration', 'org', 'app_user', 'workspace', 'api_key', 'sign_in', 'sign_in_try',
                'erasure')
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
