"""Database code that all subjects share: connections, migrations, visibility, the job queue."""
