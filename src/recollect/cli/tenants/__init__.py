"""Commands that manage orgs, users, workspaces, projects, agents and keys."""
