"""Orgs, users, workspaces, projects, agents, API keys and sign-in."""
