-- Erasing a person, a thread or a key with everything made of it, and the receipts of that; and
-- addresses that are found under row-level security.

-- Under row-level security no index over `left(code, 12)` is used: the function is not leakproof.
-- As columns the first twelve letters are found by index. Both tables are written anew once.
DROP INDEX memory_code;
ALTER TABLE memory ADD COLUMN short_code text NOT NULL GENERATED ALWAYS AS (left(code, 12)) STORED;
CREATE UNIQUE INDEX memory_code ON memory (workspace_id, short_code);
DROP INDEX thread_code;
ALTER TABLE thread ADD COLUMN short_code text NOT NULL GENERATED ALWAYS AS (left(code, 12)) STORED;
CREATE UNIQUE INDEX thread_code ON thread (workspace_id, short_code);

-- Whose it is, so that it can go with them. No foreign keys: these rows pass by themselves.
ALTER TABLE response ADD COLUMN user_id uuid;
ALTER TABLE hidden_call ADD COLUMN user_id uuid;
ALTER TABLE injection ADD COLUMN user_id uuid;
-- Rows of before have an owner where only one can be it: all keys of their workspace are one
-- user's. The others are gone thirty days later, as they would have been.
UPDATE response r
SET user_id = sole.user_id
FROM (
    SELECT workspace_id, min(user_id::text)::uuid AS user_id
    FROM api_key
    WHERE workspace_id IS NOT NULL
    GROUP BY workspace_id
    HAVING count(DISTINCT user_id) = 1
) AS sole
WHERE sole.workspace_id = r.workspace_id;
UPDATE hidden_call h
SET user_id = sole.user_id
FROM (
    SELECT workspace_id, min(user_id::text)::uuid AS user_id
    FROM api_key
    WHERE workspace_id IS NOT NULL
    GROUP BY workspace_id
    HAVING count(DISTINCT user_id) = 1
) AS sole
WHERE sole.workspace_id = h.workspace_id;

-- What was erased, as it was certified: a receipt holds hashes and numbers, no id and no text. Each
-- carries the hash of the one before it, so that none can be taken away or changed unnoticed. No
-- foreign key: the receipt outlives the org.
CREATE TABLE erasure (
    id uuid PRIMARY KEY,
    number bigint NOT NULL UNIQUE,
    org_id uuid NOT NULL,
    receipt text NOT NULL,
    hash text NOT NULL,
    created_at timestamptz NOT NULL
);
CREATE INDEX erasure_org ON erasure (org_id, number);

CREATE FUNCTION refuse_change_of_receipt() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'receipts are append-only' USING ERRCODE = 'insufficient_privilege';
END
$$;
CREATE TRIGGER erasure_is_append_only BEFORE UPDATE OR DELETE ON erasure
    FOR EACH ROW EXECUTE FUNCTION refuse_change_of_receipt();

-- The audit stays append-only but for an erasure, which may take out of a line who it was about and
-- why somebody deleted, and remove the lines of a workspace that ceases to exist.
CREATE OR REPLACE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF current_setting('recollect.erasing', true) = 'on' THEN
        IF TG_OP = 'DELETE' THEN
            RETURN OLD;
        END IF;
        IF NEW.reason IS NULL AND NEW.subject IS NULL
            AND (NEW.user_id IS NULL OR NEW.user_id = OLD.user_id)
            AND NEW.actor IN (OLD.actor, 'erased')
            AND (NEW.workspace_id, NEW.id, NEW.action, NEW.thread_code, NEW.details, NEW.at,
                 NEW.is_private)
            IS NOT DISTINCT FROM
            (OLD.workspace_id, OLD.id, OLD.action, OLD.thread_code, OLD.details, OLD.at,
             OLD.is_private)
        THEN
            RETURN NEW;
        END IF;
    END IF;
    RAISE EXCEPTION 'audit events are append-only' USING ERRCODE = 'insufficient_privilege';
END
$$;
