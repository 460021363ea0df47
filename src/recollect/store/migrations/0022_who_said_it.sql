-- Who posted a message or a turn, which in a thread of several people is not whose the thread is:
-- erased with a person is also what they said in other people's conversations.
-- Rows from before have nobody: they go with their thread.
ALTER TABLE message ADD COLUMN user_id uuid;
ALTER TABLE turn ADD COLUMN user_id uuid;

-- Whether somebody sees a memory is read from the index that lists are read from: counting them
-- visited every row, which was most of its cost.
DROP INDEX memory_created;
CREATE INDEX memory_created ON memory (workspace_id, created_at DESC, id DESC)
    INCLUDE (scope, user_id, project_id, agent_id, thread_id, expires_at, valid_from, valid_until)
    WHERE deleted_at IS NULL;
