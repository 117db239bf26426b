-- Only where the service reaches PostgreSQL through a pooler in transaction mode: what it sets in each session of its own otherwise must
-- come from its role there, since a SET would reach some session or other. Without them a claim may flip to a plan that reads the whole
-- queue. Run it as a superuser, after roles.sql.
ALTER ROLE waybill_runtime SET statement_timeout = '30s';
ALTER ROLE waybill_runtime SET plan_cache_mode = force_generic_plan;
ALTER ROLE waybill_runtime SET enable_seqscan = off;
ALTER ROLE waybill_runtime SET enable_sort = off;
ALTER ROLE waybill_runtime SET enable_bitmapscan = off;
ALTER ROLE waybill_runtime SET jit = off;
