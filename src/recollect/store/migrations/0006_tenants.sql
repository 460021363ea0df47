-- Whose memory is it: projects with members, agents, workspaces with members, and what a memory
-- and its vector must carry so that one predicate can decide who sees them.

-- Off: a user's own memories follow them through every workspace of the org. On: the active
-- workspace bounds everything, and without one there is nothing.
ALTER TABLE org ADD COLUMN workspaces_on boolean NOT NULL DEFAULT false;
ALTER TABLE org ADD COLUMN archived_at timestamptz;
ALTER TABLE app_user ADD COLUMN archived_at timestamptz;
ALTER TABLE workspace ADD COLUMN archived_at timestamptz;

-- A key without a workspace is in the org's default one, or, with workspaces on, in none.
ALTER TABLE api_key ALTER COLUMN workspace_id DROP NOT NULL;

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
    -- An agent of a project is its members'; one without is everybody's in the workspace.
    project_id uuid,
    name text NOT NULL,
    created_at timestamptz NOT NULL,
    archived_at timestamptz,
    PRIMARY KEY (workspace_id, id),
    UNIQUE (workspace_id, name),
    FOREIGN KEY (workspace_id, project_id) REFERENCES project
);

-- Like its thread, a memory outlives its project and agent: no foreign keys.
ALTER TABLE memory ADD COLUMN project_id uuid;
ALTER TABLE memory ADD COLUMN agent_id uuid;
-- Whether there is anything in a workspace that not everybody there sees.
CREATE INDEX memory_restricted ON memory (workspace_id, scope) WHERE scope <> 'workspace';

-- Whose thread it is, and of which project and agent; threads of before are the workspace's.
ALTER TABLE thread ADD COLUMN user_id uuid;
ALTER TABLE thread ADD COLUMN project_id uuid;
ALTER TABLE thread ADD COLUMN agent_id uuid;

-- An event about something that not everybody in the workspace sees is its actor's alone.
ALTER TABLE event ADD COLUMN is_private boolean NOT NULL DEFAULT false;

-- Beside the vector, as the other columns that searches filter by. Every row of before is the whole
-- workspace's, for which nothing else is asked: no vector need be written anew. By triggers of their
-- own, so that whatever else comes to be copied there leaves these alone.
ALTER TABLE memory_vector ADD COLUMN scope text NOT NULL DEFAULT 'workspace';
ALTER TABLE memory_vector ALTER COLUMN scope DROP DEFAULT;
ALTER TABLE memory_vector ADD COLUMN user_id uuid;
ALTER TABLE memory_vector ADD COLUMN project_id uuid;
ALTER TABLE memory_vector ADD COLUMN agent_id uuid;

-- A vector takes the traits of its memory as it is stored, whoever stores it.
CREATE FUNCTION take_sight_of_memory() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    SELECT m.scope, m.user_id, m.project_id, m.agent_id
    INTO NEW.scope, NEW.user_id, NEW.project_id, NEW.agent_id
    FROM memory m
    WHERE m.workspace_id = NEW.workspace_id AND m.id = NEW.memory_id;
    RETURN NEW;
END
$$;
CREATE TRIGGER vector_takes_sight BEFORE INSERT ON memory_vector
    FOR EACH ROW EXECUTE FUNCTION take_sight_of_memory();

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

DO $$
DECLARE
    name text;
BEGIN
    FOREACH name IN ARRAY ARRAY['workspace_member', 'project', 'project_member', 'agent'] LOOP
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
