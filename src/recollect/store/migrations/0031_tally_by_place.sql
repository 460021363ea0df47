-- How many memories are in sight is asked by place: where every chat is one, there are very many.
CREATE INDEX word_tally_place ON word_tally (workspace_id, place);
