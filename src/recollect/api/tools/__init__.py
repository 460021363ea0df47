"""Memory as tools: `/v1/tools`, MCP at `/mcp` and on stdio, and `/agents/memories`."""
