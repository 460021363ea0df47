-- Whether anything was refused by the embedder is asked with every recall, which then looks by words
-- as well. Mostly nothing was, and the index is empty.
CREATE INDEX memory_refused ON memory (workspace_id) WHERE vector_refused AND deleted_at IS NULL;
