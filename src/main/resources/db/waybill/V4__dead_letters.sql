-- Dead letters as a product, and the log of what operators did. docs/decisions/0028 to 0031 say why.

-- --------------------------------------------------------------------------------------------------------- audit log

-- Who did what to whose jobs, and how many there were. Written in the transaction of the act itself: neither is there without the other.
CREATE TABLE waybill.audit_log (
  id     bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  at     timestamptz NOT NULL DEFAULT now(),
  who    text NOT NULL CHECK (length(who) BETWEEN 1 AND 256),
  what   text NOT NULL CHECK (what ~ '^[a-z][a-z-]{0,39}$'),
  target text CHECK (length(target) <= 256),
  tenant text,
  filter jsonb,
  jobs   bigint NOT NULL CHECK (jobs >= 0)
);
CREATE INDEX audit_log_tenant ON waybill.audit_log (tenant, id) WHERE tenant IS NOT NULL;

-- Append-only for everybody, the owner and replication included.
CREATE FUNCTION waybill.audit_log_stays() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RAISE EXCEPTION 'the audit log is append-only' USING ERRCODE = '42501', HINT = 'What was written there stays.';
END $$;
CREATE TRIGGER audit_log_stays BEFORE UPDATE OR DELETE OR TRUNCATE ON waybill.audit_log
FOR EACH STATEMENT EXECUTE FUNCTION waybill.audit_log_stays();
ALTER TABLE waybill.audit_log ENABLE ALWAYS TRIGGER audit_log_stays;
