-- A recall counts an access in each of its ten results. With the count in an index, every one of
-- these changes wrote the whole row anew and an entry in each of its indexes: 90 records of the log
-- and up to half a megabyte a recall. Without it, and with room left in the page, the change stays
-- where it is. Listing by number of accesses, which is rare, sorts instead.
DROP INDEX memory_accessed;
ALTER TABLE memory SET (fillfactor = 85);
