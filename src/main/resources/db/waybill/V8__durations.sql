-- How long attempts took, by kind and day, in buckets: a bucket is a quarter of a power of two of microseconds (dev.waybill.figures.Bucket).
-- Each process counts in memory and adds what it counted once a minute, so no attempt pays for it; a crash loses a minute's counts.
-- jobs_done could say it too, for kinds that keep their jobs, at the price of a scan of a week. docs/decisions/0047.
CREATE TABLE waybill.durations (
  day    date NOT NULL,
  kind   text NOT NULL,
  bucket smallint NOT NULL,
  n      bigint NOT NULL,
  PRIMARY KEY (day, kind, bucket)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.0, autovacuum_vacuum_threshold = 1000);
