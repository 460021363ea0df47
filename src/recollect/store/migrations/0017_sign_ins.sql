-- Browsers that are signed in, and tries to sign in; what was done to one memory.

CREATE TABLE sign_in (
    -- SHA-256 of the token in the cookie: at 256 random bits a fast hash is the right one.
    digest bytea PRIMARY KEY,
    user_id uuid NOT NULL REFERENCES app_user (id) ON DELETE CASCADE,
    created_at timestamptz NOT NULL,
    last_seen_at timestamptz NOT NULL,
    expires_at timestamptz NOT NULL
);
CREATE INDEX sign_in_user ON sign_in (user_id);
CREATE INDEX sign_in_expiry ON sign_in (expires_at);

-- Counted here and not in a process: several servers have one limit.
CREATE TABLE sign_in_try (
    -- Digest of an account or an address: the table tells nobody who tried.
    subject bytea PRIMARY KEY,
    failures integer NOT NULL,
    tried_at timestamptz NOT NULL,
    next_at timestamptz NOT NULL
);
CREATE INDEX sign_in_try_tried ON sign_in_try (tried_at);

-- What was done to one memory. A column, because under row-level security no index helps a search
-- inside `details`.
ALTER TABLE event ADD COLUMN memory_code text GENERATED ALWAYS AS (details ->> 'memory') STORED;
CREATE INDEX event_memory ON event (workspace_id, memory_code, at) WHERE memory_code IS NOT NULL;
