-- How many memories of a large workspace have each of its common words, so that a search need not
-- read through a word only to learn that it tells nothing. Counted now and then by a job.
CREATE TABLE common_word (
    workspace_id uuid NOT NULL REFERENCES workspace (id),
    term text NOT NULL,
    memories bigint NOT NULL,
    PRIMARY KEY (workspace_id, term)
);
-- How many memories there were when that was counted.
CREATE TABLE word_census (
    workspace_id uuid PRIMARY KEY REFERENCES workspace (id),
    documents bigint NOT NULL
);

ALTER TABLE common_word ENABLE ROW LEVEL SECURITY;
ALTER TABLE common_word FORCE ROW LEVEL SECURITY;
CREATE POLICY common_word_of_workspace ON common_word USING (
    workspace_id = (SELECT NULLIF(current_setting('recollect.workspace', true), '')::uuid)
    OR (SELECT current_setting('recollect.reach', true)) = 'everywhere');
ALTER TABLE word_census ENABLE ROW LEVEL SECURITY;
ALTER TABLE word_census FORCE ROW LEVEL SECURITY;
CREATE POLICY word_census_of_workspace ON word_census USING (
    workspace_id = (SELECT NULLIF(current_setting('recollect.workspace', true), '')::uuid)
    OR (SELECT current_setting('recollect.reach', true)) = 'everywhere');
