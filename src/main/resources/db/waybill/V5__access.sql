-- Who may do what: see docs/access.md and the room dev.waybill.access.

-- Whether a job of this tenant and kind is there for a caller; a NULL binds the caller to nothing. Every statement that reads or changes
-- jobs for a caller has it in its WHERE. Plain SQL without SET, so that the planner inlines it: with a NULL known to it (a custom plan)
-- it falls away, with a tenant it is an index condition.
CREATE FUNCTION waybill.visible(tenant text, kind text, of_tenant text, of_kinds text[]) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN (of_tenant IS NULL OR tenant = of_tenant) AND (of_kinds IS NULL OR kind = ANY (of_kinds));

REVOKE ALL ON FUNCTION waybill.visible(text, text, text, text[]) FROM PUBLIC;
