-- Who may do what: see docs/access.md and the room dev.waybill.access.

-- Whether a job of this tenant and kind is there for a caller; a NULL binds the caller to nothing. Every statement that reads or changes
-- jobs for a caller has it in its WHERE. Plain SQL without SET, so that the planner inlines it: with a NULL known to it (a custom plan)
-- it falls away, with a tenant it is an index condition.
CREATE FUNCTION waybill.visible(tenant text, kind text, of_tenant text, of_kinds text[]) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN (of_tenant IS NULL OR tenant = of_tenant) AND (of_kinds IS NULL OR kind = ANY (of_kinds));

-- API tokens. What proves one is not here: only its SHA-256, which for 256 random bits is as good as any slower hash.
-- Revoked ones stay, so that the log of what they did can be read, and the first one does not come back by its setting.
CREATE TABLE waybill.tokens (
  id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  hash         bytea NOT NULL UNIQUE CHECK (octet_length(hash) = 32),
  name         text NOT NULL CHECK (length(name) BETWEEN 1 AND 128),
  role         text NOT NULL CHECK (role IN ('producer', 'worker', 'operator', 'viewer')),
  tenant       text CHECK (length(tenant) <= 128),
  kinds        text[] CHECK (cardinality(kinds) BETWEEN 1 AND 100),
  payloads     boolean NOT NULL,
  created_at   timestamptz NOT NULL DEFAULT now(),
  created_by   text NOT NULL,
  expires_at   timestamptz,
  revoked_at   timestamptz,
  last_used_at timestamptz
) WITH (fillfactor = 80);

REVOKE ALL ON FUNCTION waybill.visible(text, text, text, text[]) FROM PUBLIC;
