// The responses of the dashboard's routes, as the page uses them.

export interface Page<T> { items: T[]; next_cursor: string | null; has_more: boolean }

export interface Workspace { id: string; name: string; is_default: boolean }
export interface Model { id: string; owned_by: string }
export interface Me {
  user: { id: string; name: string };
  org: { name: string };
  rights: string[];
  workspaces: Workspace[];
  models: Model[];
  default_model: string;
  server: { version: string };
}

export interface Chat { id: string; title: string; workspace_id: string; created_at: string; updated_at: string }

export type Kind = "chat" | "deep_think" | "research" | "compaction";
export interface Injected { memory_id: string; content: string; category: string | null; score: number | null; why: Record<string, unknown> }
export interface Message {
  id: string | null;
  role: "user" | "assistant" | "system" | "tool";
  content: string;
  html?: string | null;
  created_at: string;
  kind?: Kind | null;
  memory_id?: string | null;
  is_complete?: boolean;
  is_stopped?: boolean;
  injected?: Injected[];
}

export interface Memory {
  id: string;
  content: string;
  summary: string | null;
  category: string | null;
  source_type: string;
  created_at: string;
  updated_at?: string;
  pinned?: boolean;
  tags?: string[];
  source_chat_id?: string | null;
  source_message_id?: string | null;
  importance?: number;
  score?: number;
  why?: Record<string, unknown> | null;
  learned_at?: string;
}
export interface Link { relation: string; direction: "out" | "in"; weight: number; memory: Memory }
export interface MemoryDetail extends Memory {
  quote?: string | null;
  reason?: string | null;
  source_note?: string | null;
  valid_from?: string | null;
  valid_until?: string | null;
  superseded_by?: string | null;
  replaces?: Memory[];
  replaced_by?: Memory[];
  links?: Link[];
  history?: { version?: number; at: string; event: string; actor: string; content?: string | null }[];
  messages?: { id: string; chat_id: string; role: string; content: string }[];
}
export interface Candidate { id: string; content: string; category: string | null; quote?: string | null; reason?: string | null; created_at: string }

export interface Facet { name: string; count: number }
export interface Facets { categories: Facet[]; source_types: Facet[]; tags: Facet[]; chats: { id: string; title: string; count: number }[] }

export interface Node_ { id: string; kind: string; label: string; importance: number; created_at: string }
export interface Edge { source: string; target: string; kind: string; relation: string | null; weight: number }
export interface Graph { nodes: Node_[]; edges: Edge[] }

export interface Document_ {
  id: string; name: string; type: string; size: number;
  status: "waiting" | "reading" | "ready" | "stored" | "failed";
  error: string | null; chunks: number; created_at: string;
}
export interface Found { kind: string; id: string; title: string; snippet: string; score: number; created_at: string }
export interface Job { id: string; kind: string; state: string; tries: number; error: string | null; created_at: string; due_at: string }
export interface Usage {
  calls: { day: string; purpose: string; model: string; input_tokens: number; output_tokens: number; cost: number | null; failed: number }[];
  recall: { day: string; count: number; p50: number; p95: number }[];
}
export interface Key { id: string; name: string; rights: string[]; shown?: string; created_at: string; expires_at: string | null; last_used_at: string | null; key?: string }
export interface Member { id: string; name: string; role?: string; created_at?: string }
