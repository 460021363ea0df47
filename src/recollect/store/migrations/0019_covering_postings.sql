-- A search reads thousands of postings of a few words. With their numbers in the index it need not
-- visit the rows, which lie scattered over the table.

ALTER TABLE memory_word DROP CONSTRAINT memory_word_pkey;
ALTER TABLE memory_word
    ADD PRIMARY KEY (workspace_id, term, memory_id) INCLUDE (frequency, length);
