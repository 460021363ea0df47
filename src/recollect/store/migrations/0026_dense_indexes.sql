-- Whether a workspace's vector index was built for a very large one, with more links a vector.
ALTER TABLE vector_index ADD COLUMN is_dense boolean NOT NULL DEFAULT false;
