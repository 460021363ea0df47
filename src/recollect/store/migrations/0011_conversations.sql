-- What the segmenter must know of a thread.

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
