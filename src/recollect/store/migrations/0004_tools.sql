-- What other systems call their conversations: a thread is also found by a label of the client's.
ALTER TABLE thread ADD COLUMN label text;
CREATE UNIQUE INDEX thread_label ON thread (workspace_id, label);

-- Which threads, and through them which memories, an agent has.
CREATE INDEX thread_agent ON thread (workspace_id, agent) WHERE agent IS NOT NULL;
