-- The links of a memory by relation, the strongest first: where a hundred thousand lead to one, the
-- few that count are read and not all of them. What looked up links by their target finds them here.
CREATE INDEX association_outward ON association (
    workspace_id, source_id, is_authored, relation, weight DESC, target_id
);
CREATE INDEX association_inward ON association (
    workspace_id, target_id, is_authored, relation, weight DESC, source_id
);
DROP INDEX association_target;
