-- Why the rules processed a message instead of the model, or why it still waits.
ALTER TABLE lesson ADD COLUMN failure text;
