-- What the router must know of a turn once it is over.

-- Which memories stood behind a user message, so that the next request of that conversation begins
-- with the same bytes. Ids, not texts: what is forgotten meanwhile is not repeated.
CREATE TABLE injection (
    workspace_id uuid NOT NULL REFERENCES workspace (id),
    -- Digest of the conversation up to that message, as the client sends it.
    place bytea NOT NULL,
    memory_ids uuid[] NOT NULL,
    -- The unguessable part of the fence.
    suffix text NOT NULL,
    created_at timestamptz NOT NULL,
    PRIMARY KEY (workspace_id, place)
);
CREATE INDEX injection_created ON injection (created_at);

-- Calls of built-in tools that stood beside a client's own: woven back in when the client returns
-- with its result.
CREATE TABLE hidden_call (
    workspace_id uuid NOT NULL REFERENCES workspace (id),
    -- The client's tool call they stood beside.
    call_id text NOT NULL,
    calls jsonb NOT NULL,
    results jsonb NOT NULL,
    created_at timestamptz NOT NULL,
    PRIMARY KEY (workspace_id, call_id)
);
CREATE INDEX hidden_call_created ON hidden_call (created_at);

-- Responses a later request may continue by id. Each holds its own messages; the earlier ones are
-- found by following `previous_id`.
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
    PRIMARY KEY (workspace_id, id)
);
CREATE INDEX response_conversation ON response (workspace_id, conversation, created_at DESC)
    WHERE conversation IS NOT NULL;
CREATE INDEX response_created ON response (created_at);

-- The ledger: a row when a model is asked, closed when it has answered or failed.
CREATE TABLE model_call (
    workspace_id uuid NOT NULL REFERENCES workspace (id),
    id uuid NOT NULL,
    purpose text NOT NULL,
    model text NOT NULL,
    state text NOT NULL CHECK (state IN ('open', 'done', 'failed')),
    -- What an open call may cost at most; it counts until the real numbers are known.
    reserved_tokens bigint NOT NULL DEFAULT 0,
    input_tokens bigint NOT NULL DEFAULT 0,
    output_tokens bigint NOT NULL DEFAULT 0,
    started_at timestamptz NOT NULL,
    ended_at timestamptz,
    PRIMARY KEY (workspace_id, id)
);
CREATE INDEX model_call_started ON model_call (workspace_id, started_at DESC);

-- What was said and waits to be learnt from. The text goes when it is done; the digest stays, so
-- that the same words are not paid for twice.
CREATE TABLE lesson (
    workspace_id uuid NOT NULL REFERENCES workspace (id),
    id uuid NOT NULL,
    dedupe_key text NOT NULL,
    -- Where it comes from: tool, turn, auto_deep_think, ...
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
    PRIMARY KEY (workspace_id, id),
    FOREIGN KEY (workspace_id, thread_id) REFERENCES thread (workspace_id, id) ON DELETE CASCADE
);
CREATE UNIQUE INDEX lesson_key ON lesson (workspace_id, dedupe_key);
CREATE INDEX lesson_pending ON lesson (workspace_id, created_at, id) WHERE state = 'pending';
CREATE INDEX lesson_digest ON lesson (workspace_id, digest) WHERE state = 'done';
CREATE INDEX lesson_done ON lesson (done_at) WHERE state <> 'pending';

-- What the distiller made of a lesson: kept at once, or waiting for somebody's decision.
CREATE TABLE candidate (
    workspace_id uuid NOT NULL REFERENCES workspace (id),
    id uuid NOT NULL,
    lesson_id uuid NOT NULL,
    content text NOT NULL,
    summary text,
    category text,
    quote text NOT NULL,
    -- What a later statement about the same thing replaces, such as where somebody lives.
    slot text,
    -- Why it waits, where it waits.
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

-- Facts that have one value at a time are found by their slot.
CREATE INDEX memory_slot ON memory (workspace_id, (metadata ->> 'slot'))
    WHERE deleted_at IS NULL AND metadata ? 'slot';

DO $$
DECLARE
    name text;
BEGIN
    FOREACH name IN ARRAY ARRAY[
        'injection', 'hidden_call', 'response', 'model_call', 'lesson', 'candidate'
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
