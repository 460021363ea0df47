-- What the segmenter must know of a thread, and people who sign in.

-- When something was last said, by the clock of the house and not of whoever said it: only silence
-- that we have heard ourselves ends a stretch.
ALTER TABLE thread ADD COLUMN heard_at timestamptz;
UPDATE thread SET heard_at = updated_at WHERE message_count > 0;

-- When the segmenter should look next: at once after something was said, and again when the silence
-- since has become long enough to end the stretch. Null: nothing is open.
ALTER TABLE thread DROP COLUMN is_unsegmented;
ALTER TABLE thread ADD COLUMN segment_due_at timestamptz;
UPDATE thread SET segment_due_at = updated_at WHERE message_count > 0;
CREATE INDEX thread_segment_due ON thread (workspace_id, segment_due_at)
    WHERE segment_due_at IS NOT NULL;

-- Signed-in browsers. The cookie's token is kept as a digest only: who reads this table is nobody.
CREATE TABLE web_session (
    digest bytea PRIMARY KEY,
    user_id uuid NOT NULL REFERENCES app_user (id) ON DELETE CASCADE,
    created_at timestamptz NOT NULL,
    seen_at timestamptz NOT NULL,
    expires_at timestamptz NOT NULL
);
CREATE INDEX web_session_user ON web_session (user_id);
CREATE INDEX web_session_expiry ON web_session (expires_at);

-- Tries to sign in, by account and by address, counted here so that all servers count together.
CREATE TABLE login_try (
    holder text NOT NULL,
    at timestamptz NOT NULL
);
CREATE INDEX login_try_holder ON login_try (holder, at);
