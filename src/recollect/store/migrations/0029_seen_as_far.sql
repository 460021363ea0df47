-- What somebody alone sees ends no statement that others see as well. Those that were ended so are
-- current again, or ended by the first word that everybody who sees them sees.
UPDATE memory t
SET superseded_by = seen.by, valid_until = seen.at, version = t.version + 1
FROM (
    SELECT t.workspace_id, t.id, first.by, first.at
    FROM memory t
    JOIN memory n ON n.workspace_id = t.workspace_id AND n.id = t.superseded_by
    LEFT JOIN LATERAL (
        SELECT a.source_id AS by, a.created_at AS at
        FROM association a
        JOIN memory other ON other.workspace_id = a.workspace_id AND other.id = a.source_id
        WHERE a.workspace_id = t.workspace_id AND a.target_id = t.id
            AND a.relation = 'updates' AND a.is_authored
            AND other.deleted_at IS NULL AND other.scope = 'workspace'
        ORDER BY a.created_at, a.source_id
        LIMIT 1
    ) AS first ON true
    WHERE n.scope <> 'workspace'
        AND (n.scope <> t.scope OR CASE n.scope
            WHEN 'global' THEN n.user_id <> t.user_id
            WHEN 'project' THEN n.project_id IS DISTINCT FROM t.project_id
            WHEN 'agent' THEN n.agent_id IS DISTINCT FROM t.agent_id
            ELSE n.thread_id IS DISTINCT FROM t.thread_id END)
) AS seen
WHERE t.workspace_id = seen.workspace_id AND t.id = seen.id;

-- A save by key beside a forgetting could index what is hidden; restoring it failed then.
WITH hidden AS (
    SELECT i.workspace_id, i.memory_id
    FROM memory_terms i
    JOIN memory m ON m.workspace_id = i.workspace_id AND m.id = i.memory_id
    WHERE m.deleted_at IS NOT NULL
),
filed AS (
    DELETE FROM memory_word w
    USING memory_terms i, hidden
    WHERE i.workspace_id = hidden.workspace_id AND i.memory_id = hidden.memory_id
        AND w.workspace_id = i.workspace_id AND w.term = ANY(i.terms) AND w.place = i.place
        AND w.memory_id = i.memory_id
),
kept AS (
    DELETE FROM memory_terms i
    USING hidden
    WHERE i.workspace_id = hidden.workspace_id AND i.memory_id = hidden.memory_id
    RETURNING i.workspace_id, i.place, i.length
)
INSERT INTO word_tally (workspace_id, place, documents, length)
SELECT workspace_id, place, -count(*), -sum(length) FROM kept
GROUP BY workspace_id, place;
