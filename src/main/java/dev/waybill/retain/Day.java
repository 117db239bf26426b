package dev.waybill.retain;

/** One partition of the finished jobs, as the catalog knows it. */
record Day(long oid, String name) {

  /** Blocks to a page: 8 MB, read and counted or purged by one short statement. */
  static final int PAGE_BLOCKS = 1_000;
}
