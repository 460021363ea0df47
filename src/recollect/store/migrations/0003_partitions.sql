-- A partition is a table of its own: whoever names one directly meets the same lock.
DO $$
DECLARE
    name text;
BEGIN
    FOR name IN
        SELECT inhrelid::regclass::text
        FROM pg_inherits
        WHERE inhparent IN ('memory_vector'::regclass, 'memory_word'::regclass)
    LOOP
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
