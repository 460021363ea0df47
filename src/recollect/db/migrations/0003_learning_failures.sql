-- Why the rules processed a message instead of the model, or why it still waits.
ALTER TABLE inbox_item ADD COLUMN failure text;
