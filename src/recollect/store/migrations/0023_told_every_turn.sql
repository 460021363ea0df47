-- What every turn of a chat is told: what is pinned, and who somebody is. Without this each turn
-- looked through the whole workspace for it.
CREATE INDEX memory_told ON memory (workspace_id, created_at, id)
    WHERE pinned OR kind = 'identity';
