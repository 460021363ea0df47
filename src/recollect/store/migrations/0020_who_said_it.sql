-- Who posted a message or a turn, which in a thread of several people is not whose the thread is:
-- erased with a person is also what they said in other people's conversations.
-- Rows from before have nobody: they go with their thread.
ALTER TABLE message ADD COLUMN user_id uuid;
ALTER TABLE turn ADD COLUMN user_id uuid;
