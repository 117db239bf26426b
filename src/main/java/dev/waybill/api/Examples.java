package dev.waybill.api;

/** Requests and answers as the OpenAPI document shows them. A test sends the requests. */
final class Examples {

  static final String NEW_JOB =
      """
      {"kind": "echo", "payload": {"to": "a@b.c"}, "tenant": "acme", "priority": 5, "delay": "PT5M",
       "dedupeKey": "order-42", "maxAttempts": 5, "tags": ["mail"], "payloadVersion": 1}\
      """;

  static final String JOB =
      """
      {"id": 42, "kind": "echo", "tenant": "acme", "priority": 5, "state": "done", "payload": {"to": "a@b.c"},
       "payloadVersion": 1, "attempt": 1, "maxAttempts": 5, "crashes": 0, "createdAt": "2026-11-18T08:00:00Z",
       "runAt": "2026-11-18T08:05:00Z", "startedAt": "2026-11-18T08:05:00.012Z", "finishedAt": "2026-11-18T08:05:00.310Z",
       "worker": "pod-1/3f2a", "result": {"to": "a@b.c"}, "tags": ["mail"], "dedupeKey": "order-42",
       "attempts": [{"attempt": 1, "worker": "pod-1/3f2a", "startedAt": "2026-11-18T08:05:00.012Z",
         "endedAt": "2026-11-18T08:05:00.31Z", "outcome": "done"}],
       "timings": {"waitSeconds": 0.012, "runSeconds": 0.298}}\
      """;

  static final String JOB_CANCELLED =
      """
      {"id": 42, "kind": "echo", "tenant": "acme", "priority": 5, "state": "cancelled", "payload": {"to": "a@b.c"},
       "payloadVersion": 1, "attempt": 0, "maxAttempts": 5, "crashes": 0, "createdAt": "2026-11-18T08:00:00Z",
       "runAt": "2026-11-18T08:05:00Z", "finishedAt": "2026-11-18T08:01:00.310Z", "tags": ["mail"], "dedupeKey": "order-42",
       "attempts": [], "timings": {}}\
      """;

  static final String JOB_READY =
      """
      {"id": 42, "kind": "echo", "tenant": "acme", "priority": 5, "state": "ready", "payload": {"to": "a@b.c"},
       "payloadVersion": 1, "attempt": 0, "maxAttempts": 5, "crashes": 0, "createdAt": "2026-11-18T08:00:00Z",
       "runAt": "2026-11-18T08:01:00Z", "tags": ["mail"], "dedupeKey": "order-42", "attempts": [], "timings": {}}\
      """;

  static final String BATCH =
      """
      [{"kind": "echo", "payload": {"n": 1}}, {"kind": "sleep", "payload": {"ms": 5}, "tenant": "acme"}]\
      """;

  static final String BATCH_LINES =
      """
      {"kind": "echo", "payload": {"n": 1}}
      {"kind": "sleep", "payload": {"ms": 5}, "tenant": "acme"}
      """;

  static final String IDS =
      """
      {"ids": [43, 44]}\
      """;

  static final String PAGE =
      """
      {"jobs": [{"id": 42, "kind": "echo", "tenant": "acme", "priority": 5, "state": "done", "attempt": 1, "crashes": 0,
        "payloadVersion": 1, "createdAt": "2026-11-18T08:00:00Z", "runAt": "2026-11-18T08:05:00Z",
        "startedAt": "2026-11-18T08:05:00.012Z", "finishedAt": "2026-11-18T08:05:00.310Z", "worker": "pod-1/3f2a",
        "tags": ["mail"], "dedupeKey": "order-42"}], "next": "MTo0Mg"}\
      """;

  static final String POLICY =
      """
      {"maxAttempts": 5, "backoff": {"base": "PT2S", "factor": 2, "cap": "PT10M", "jitter": true}, "lease": "PT1M",
       "timeout": "PT5M", "retention": "P7D", "deadRetention": "P30D", "tenantCap": 10, "kindCap": 100, "ratePerSecond": 50,
       "paused": false, "delivery": "bean", "archive": false}\
      """;

  static final String KIND =
      """
      {"kind": "email", "version": 3, "updatedAt": "2026-11-18T08:00:00Z", "maxAttempts": 5,
       "backoff": {"base": "PT5S", "factor": 3.0, "cap": "PT1H", "jitter": true}, "lease": "PT1M", "timeout": "PT10M",
       "retention": "PT168H", "deadRetention": "PT720H", "tenantCap": null, "kindCap": null, "ratePerSecond": null,
       "paused": false, "delivery": "bean", "url": null, "secretRef": null, "archive": false,
       "defaults": ["backoff.base", "backoff.factor", "backoff.cap", "backoff.jitter", "timeout", "retention",
         "deadRetention", "delivery", "archive"]}\
      """;

  static final String TENANT_LIMITS_BODY =
      """
      {"ratePerSecond": 50, "burst": 200, "backlogMax": 100000}\
      """;

  static final String TENANT_LIMITS =
      """
      {"tenant": "acme", "version": 1, "updatedAt": "2026-11-18T08:00:00Z", "ratePerSecond": 50.0, "burst": 200,
       "backlogMax": 100000}\
      """;

  static final String STATS =
      """
      {"kinds": [{"kind": "email", "scheduled": 12, "ready": 340, "running": 64, "oldestReadySeconds": 1.25,
        "claimRatePerSecond": 210.4, "doneRatePerSecond": 208.9, "retryRatePerSecond": 1.2, "dead": 7, "deadLast24h": 2}]}\
      """;

  static final String WORKERS =
      """
      {"workers": [{"name": "pod-1/3f2a", "process": "6f2c1f0e-58a1-4c7e-9d44-0f4a2c5a8f11", "version": "0.1.0",
        "roles": ["api", "worker"], "pools": [{"name": "default", "kinds": ["echo"], "slots": 64, "slotsInUse": 3}],
        "draining": false, "startedAt": "2026-11-18T07:00:00Z", "lastSeenAt": "2026-11-18T08:00:03Z"}]}\
      """;

  static final String DEAD_LETTER_SUMMARY =
      """
      {"id": 42, "kind": "email", "tenant": "acme", "priority": 0, "state": "dead", "attempt": 10, "maxAttempts": 10, "crashes": 0,
       "createdAt": "2026-11-18T08:00:00Z", "diedAt": "2026-11-18T11:20:00.310Z", "worker": "pod-1/3f2a",
       "lastError": "java.net.ConnectException: connection refused to 10.0.0.7:25", "fingerprint": "57f3ecb18a9621b1",
       "tags": ["mail"], "dedupeKey": "order-42"}\
      """;

  static final String DEAD_LETTER =
      """
      {"id": 42, "kind": "email", "tenant": "acme", "priority": 0, "state": "dead", "attempt": 10, "maxAttempts": 10, "crashes": 0,
       "createdAt": "2026-11-18T08:00:00Z", "diedAt": "2026-11-18T11:20:00.310Z", "worker": "pod-1/3f2a",
       "lastError": "java.net.ConnectException: connection refused to 10.0.0.7:25", "fingerprint": "57f3ecb18a9621b1",
       "tags": ["mail"], "dedupeKey": "order-42", "payload": {"to": "a@b.c"}, "payloadVersion": 1,
       "attempts": [{"attempt": 10, "worker": "pod-1/3f2a", "startedAt": "2026-11-18T11:20:00.012Z",
       "endedAt": "2026-11-18T11:20:00.310Z", "outcome": "dead",
       "error": "java.net.ConnectException: connection refused to 10.0.0.7:25"}]}\
      """;

  static final String DEAD_GROUPS =
      """
      {"groups": [{"kind": "email", "fingerprint": "57f3ecb18a9621b1", "count": 1207, "first": "2026-11-18T09:00:00Z",
       "last": "2026-11-18T11:20:00.310Z",
       "sample": {"id": 42, "error": "java.net.ConnectException: connection refused to 10.0.0.7:25"}}]}\
      """;

  static final String RETRY =
      """
      {"payload": {"to": "a@b.c"}}\
      """;

  static final String NEW_REPLAY =
      """
      {"filter": {"kind": "email", "fingerprint": "57f3ecb18a9621b1", "diedAfter": "2026-11-18T08:00:00Z"}, "ratePerSecond": 50,
       "dryRun": false}\
      """;

  static final String REPLAY =
      """
      {"id": 7, "state": "running", "who": "ops", "createdAt": "2026-11-18T12:00:00Z", "ratePerSecond": 50.0,
       "filter": {"kind": "email", "fingerprint": "57f3ecb18a9621b1", "diedAfter": "2026-11-18T08:00:00Z"}, "matched": 1207,
       "matchedMore": false, "returned": 350, "skipped": {"dedupe": 2, "busy": 0}}\
      """;

  static final String LEASE =
      """
      {"kinds": ["email"], "worker": "mailer-1", "max": 10, "wait": 20, "lease": 60}\
      """;

  static final String LEASES =
      """
      {"jobs": [{"id": 42, "kind": "email", "tenant": "acme", "priority": 0, "payload": {"to": "a@b.c"}, "payloadVersion": 1,
       "attempt": 1, "maxAttempts": 10, "token": "6f9619ff-8b86-4011-b42d-00c04fc964ff", "leaseUntil": "2026-11-18T08:01:00Z",
       "tags": []}]}\
      """;

  static final String EXTEND =
      """
      {"leases": [{"id": 42, "token": "6f9619ff-8b86-4011-b42d-00c04fc964ff"}], "lease": 60}\
      """;

  static final String SETTLE =
      """
      {"outcomes": [{"id": 42, "token": "6f9619ff-8b86-4011-b42d-00c04fc964ff", "outcome": "done", "result": {"sent": true}}]}\
      """;

  static final String LEASE_ANSWERS =
      """
      {"results": [{"id": 42, "status": "settled"}, {"id": 43, "status": "lost"}]}\
      """;

  static final String EXTENDED =
      """
      {"results": [{"id": 42, "status": "extended", "leaseUntil": "2026-11-18T08:02:00Z"}, {"id": 43, "status": "lost"}]}\
      """;

  static final String AUDIT =
      """
      {"lines": [{"id": 12, "at": "2026-11-18T08:00:00Z", "who": "ops", "what": "policy", "target": "email",
       "filter": {"version": 4, "changed": {"max_attempts": [10, 5]}}, "jobs": 0}], "next": "12"}\
      """;

  static final String NEW_TOKEN =
      """
      {"name": "billing", "role": "producer", "tenant": "acme", "kinds": ["email"], "expiresIn": "P90D"}\
      """;

  static final String TOKEN_KEPT =
      """
      {"id": 3, "name": "billing", "role": "producer", "tenant": "acme", "kinds": ["email"], "payloads": false,
       "createdAt": "2026-11-18T08:00:00Z", "createdBy": "ops", "expiresAt": "2027-02-16T08:00:00Z"}\
      """;

  static final String TOKEN_MINTED =
      """
      {"id": 3, "name": "billing", "role": "producer", "tenant": "acme", "kinds": ["email"], "payloads": false,
       "createdAt": "2026-11-18T08:00:00Z", "createdBy": "ops", "expiresAt": "2027-02-16T08:00:00Z",
       "token": "wbt_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"}\
      """;

  static final String DRY_RUN =
      """
      {"dryRun": true, "matched": 1207, "matchedMore": false, "ratePerSecond": 50.0, "seconds": 24.14, "samples": []}\
      """;

  static final String PAGE_LINES =
      """
      {"id": 42, "kind": "echo", "tenant": "acme", "priority": 5, "state": "done", "attempt": 1, "crashes": 0, "payloadVersion": 1, "createdAt": "2026-11-18T08:00:00Z", "runAt": "2026-11-18T08:05:00Z", "tags": []}
      {"next": "MTo0Mg"}\
      """;

  static final String DEAD_LETTERS =
      "{\"jobs\": [" + DEAD_LETTER_SUMMARY + "], \"next\": \"1795000000310000-42\"}";

  static final String REPLAYS = "{\"replays\": [" + REPLAY + "]}";

  static final String TOKEN = TOKEN_KEPT;

  static final String TOKENS = "{\"tokens\": [" + TOKEN_KEPT + "], \"next\": 3}";

  private Examples() {}
}
