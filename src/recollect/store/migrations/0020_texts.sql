-- What a memory said before somebody changed it, with the last version that said so. The audit keeps
-- no text; whoever looks at a memory's history wants to read it. It goes with its memory.

CREATE TABLE memory_text (
    workspace_id uuid NOT NULL,
    memory_id uuid NOT NULL,
    version integer NOT NULL,
    content text NOT NULL,
    replaced_at timestamptz NOT NULL,
    PRIMARY KEY (workspace_id, memory_id, version),
    FOREIGN KEY (workspace_id, memory_id) REFERENCES memory ON DELETE CASCADE
);

ALTER TABLE memory_text ENABLE ROW LEVEL SECURITY;
ALTER TABLE memory_text FORCE ROW LEVEL SECURITY;
CREATE POLICY memory_text_of_workspace ON memory_text USING (
    workspace_id = (SELECT NULLIF(current_setting('recollect.workspace', true), '')::uuid)
    OR (SELECT current_setting('recollect.reach', true)) = 'everywhere');
