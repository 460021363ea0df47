-- The kind of API that made a generation's vectors; part of the identity of its vector space. Null
-- in rows of releases without kinds.
ALTER TABLE generation ADD COLUMN kind text;
