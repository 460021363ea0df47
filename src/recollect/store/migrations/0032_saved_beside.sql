-- What was saved right before and after a memory that is of no conversation, in the same place.
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
