-- A long conversation gets a vector index of its own, as a large workspace does: an exact scan over
-- 100,000 memories of one chat takes 60 ms. Without a thread it is the whole workspace's. The row
-- is there before its index is built and goes with the thread; an index that has none is dropped.
ALTER TABLE vector_index ADD COLUMN thread_id uuid;
ALTER TABLE vector_index
    ADD FOREIGN KEY (workspace_id, thread_id) REFERENCES thread ON DELETE CASCADE;
ALTER TABLE vector_index DROP CONSTRAINT vector_index_pkey;
ALTER TABLE vector_index ADD PRIMARY KEY (workspace_id, name);
CREATE UNIQUE INDEX vector_index_of
    ON vector_index (workspace_id, generation, thread_id) NULLS NOT DISTINCT;
