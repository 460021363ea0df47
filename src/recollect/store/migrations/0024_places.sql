-- Whoever saves something again is compared with what stands in the same place: their own, their
-- project's, or everybody's. The place is part of the index, so that what somebody else keeps in
-- another place is not even read, and how long a save takes says nothing about it. By CASE: under
-- row-level security no index over `coalesce` is used, since it counts as a function that may leak.
DROP INDEX memory_digest;
CREATE INDEX memory_digest ON memory (workspace_id, content_digest, scope, (
    CASE scope
        WHEN 'global' THEN user_id
        WHEN 'project' THEN project_id
        WHEN 'agent' THEN agent_id
        WHEN 'thread' THEN thread_id
        ELSE workspace_id
    END
)) WHERE deleted_at IS NULL;

DROP INDEX memory_key;
CREATE INDEX memory_key ON memory (workspace_id, key, scope, (
    CASE scope WHEN 'project' THEN project_id WHEN 'agent' THEN agent_id ELSE user_id END
)) WHERE key IS NOT NULL AND deleted_at IS NULL;

DROP INDEX document_digest;
CREATE INDEX document_digest ON document (
    workspace_id, digest, (CASE WHEN project_id IS NULL THEN workspace_id ELSE project_id END)
);

-- What was said in a project is learnt for the project: the same words outside of it are new.
ALTER TABLE lesson ADD COLUMN project_id uuid;
UPDATE lesson SET project_id = thread.project_id
FROM thread
WHERE thread.workspace_id = lesson.workspace_id AND thread.id = lesson.thread_id
    AND thread.project_id IS NOT NULL;
DROP INDEX lesson_digest;
CREATE INDEX lesson_digest ON lesson (
    workspace_id, digest, (CASE WHEN project_id IS NULL THEN workspace_id ELSE project_id END)
) WHERE state = 'done';
