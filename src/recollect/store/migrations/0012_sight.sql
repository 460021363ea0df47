-- Whoever stores a vector copies what decides who sees it from the memory itself, in the statement
-- that stores it; looking the memory up a second time, in a trigger, slowed every save.
DROP TRIGGER vector_takes_sight ON memory_vector;
DROP FUNCTION take_sight_of_memory();
