"""SQL for orgs, users, workspaces, projects, agents, keys and sign-in."""
