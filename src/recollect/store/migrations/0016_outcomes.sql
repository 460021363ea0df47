-- A lesson that somebody is taking: until then nobody else does, so that no model is paid twice.
ALTER TABLE lesson ADD COLUMN held_until timestamptz;

-- What a call cost by the price table of its time; NULL where the table names no price for it.
ALTER TABLE model_call ADD COLUMN cost numeric(18, 9);
